#!/usr/bin/env bash
# --schedule-module X.so: what a module puts is checked, a run keeps its passes; bad modules are refused by name.
set -euo pipefail
command -v cc >/dev/null || { echo "SKIPPED: no cc" && exit 77; }
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cd "$work"
model=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3")
make() { # NAME VERSION SCHEDULE BODY: a module NAME.so
    cc -shared -fPIC -I"$SRC_DIR/include" -o "$1.so" -xc - <<C
#include <sluice/schedule.h>
static const char *generate(const struct sl_schedule_task *t) { $4 }
const struct sl_schedule_module sluice_schedule = {$2, sizeof sluice_schedule, "$3", "test", generate};
C
}
refuse() { # STATUS PATTERN MODULE
    local rc=0
    "$SLUICE" check "${model[@]}" --stages 2 --schedule-module "$3.so" --batch 6 --micro 3 --steps 1 >out 2>&1 || rc=$?
    [ $rc -eq "$1" ] || fail "$3: exit $rc, not $1: $(cat out)"
    grep -q -e "$2" out || fail "$3: the message is not '$2': $(cat out)"
}
# Last in, first out, with split backward passes on the last stage.
lifo='for (int s = 0; s < t->stages; s++) {
    for (int m = 0; m < t->micro_batches; m++) t->put(t, 70, s, m);
    for (int m = t->micro_batches; m-- > 0;) {
        t->put(t, s + 1 < t->stages ? 66 : 73, s, m);
        if (s + 1 == t->stages) t->put(t, 87, s, m);
    }
} return 0;'
make lifo 1 lifo "$lifo"
"$SLUICE" check "${model[@]}" --stages 2 --schedule-module lifo.so --batch 6 --micro 3 --steps 2 >out 2>&1 || fail "$(cat out)"
grep -q "bit for bit" out || fail "lifo: $(cat out)"
"$SLUICE" train "${model[@]}" --stages 2 --schedule-module lifo.so --batch 6 --micro 3 --steps 2 --out run --quiet
mv lifo.so gone.so
"$SLUICE" train --resume --out run --steps 4 --quiet || fail "--resume without the module"
make badname 1 'a\"b' "$lifo"
refuse 3 "the name of a schedule has 1 to 64 letters, digits" badname
make noname 1 '' "$lifo"
refuse 3 "the name of a schedule" noname
make badversion 7 a "$lifo"
refuse 3 "version 7 and .* expects version 1" badversion
make badkind 1 a "t->put(t, 90, 0, 0); return 0;"
refuse 1 "schedule 'a' of badkind.so puts a pass with kind 'Z'" badkind
make badstage 1 a "t->put(t, 70, 2, 0); return 0;"
refuse 1 "puts a pass with stage 2; there are 2 stages and 3 micro-batches" badstage
make badmicro 1 a "t->put(t, 70, 0, -1); return 0;"
refuse 1 "puts a pass with micro-batch -1" badmicro
make reason 1 a 'return "two stages are too few";'
refuse 1 "schedule 'a' of reason.so: two stages are too few" reason
make half 1 a "t->put(t, 70, 0, 0); return 0;"
refuse 1 "1 passes are listed, 12 or more are needed" half
echo "int other;" | cc -shared -fPIC -o nothing.so -xc -
refuse 3 "has no sluice_schedule" nothing
echo "no library" >text.so
refuse 3 "cannot load the module .*text.so: .*ELF\|file too short" text
refuse 3 "there is no schedule module absent.so" absent
# Passes beyond those that there are take no memory.
make many 1 many 'for (int i = 0; i < 1000000; i++) t->put(t, 70, 0, 0); return 0;'
refuse 1 "puts a pass with no place left" many
