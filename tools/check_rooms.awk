# Checks includes and calls against ROOMS, the first file; see check_rooms.sh. Needs strip_c.awk.
function fail(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
}

function read_room(line,    parts, names, count, i, room) {
    if (line ~ /^[ \t]*(#|$)/)
        return
    if (split(line, parts, "|") != 3) {
        fail("a room is: name | may include | what it is for")
        return
    }
    room = parts[1]
    gsub(/[ \t]/, "", room)
    count = split(parts[2], names, " ")
    for (i = 1; i <= count; i++) {
        if (names[i] == "*")
            everything[room] = 1
        else if (!(names[i] in rooms))
            fail("room " room " may include " names[i] ", which is not a room above it")
        allowed[room, names[i]] = 1
    }
    rooms[room] = 1
}

function start_file() {
    strip_reset()
    path = FILENAME
    sub(/^(\.\/)?src\//, "", path)
    room = path
    sub(/\/.*/, "", room)
    if (!(room in rooms))
        fail("src/" room " is not in src/ROOMS")
    if (path ~ /\.cu$/ && path !~ /^(device\/cuda\/|comm\/nccl)/)
        fail(".cu belongs in device/cuda or comm/nccl*")
    threads_ok = path ~ /^(comm|run|pipe|ckpt|device|api)\// || path ~ /^base\/par/
}

function check_quoted(name,    other) {
    if (name !~ /\//) {
        if (name == "sluice.h" && (room in everything))
            return
        fail("#include \"" name "\": write it from src/, as \"room/file.h\"")
        return
    }
    other = name
    if (other ~ /^sluice\//) {
        # A public header belongs to the component of its name, otherwise to base.
        sub(/^sluice\//, "", other)
        sub(/\.h$/, "", other)
        if (!(other in rooms))
            other = "base"
    } else {
        sub(/\/.*/, "", other)
    }
    if (name ~ /(^|\/)\.\.?\//)
        fail("#include \"" name "\": no relative paths")
    else if (!(other in rooms))
        fail("#include \"" name "\": " other " is not a room")
    else if (other != room && !(room in everything) && !((room, other) in allowed))
        fail("#include \"" name "\": " room " may not include " other " (src/ROOMS)")
}

function check_system(name) {
    if (name == "mpi.h" && path !~ /^comm\/mpi/)
        fail("<mpi.h> only in comm/mpi*")
    if (name ~ /^(cuda|cublas|cudnn|nccl)/ && path !~ /^(device\/cuda\/|comm\/nccl)/)
        fail("<" name "> only in device/cuda and comm/nccl*")
    if (name ~ /^(pthread|stdatomic|threads|semaphore)\.h$/ && !threads_ok)
        fail("<" name "> only in comm, run, pipe, ckpt, device and base/par*")
    if (name ~ /^sluice(\.h$|\/)/)
        fail("<" name ">: inside the project write it with quotes")
}

function check_include(line,    name) {
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", line)
    name = substr(line, 2)
    if (line ~ /^"/) {
        sub(/".*/, "", name)
        check_quoted(name)
    } else if (line ~ /^</) {
        sub(/>.*/, "", name)
        check_system(name)
    } else {
        fail("#include of a macro")
    }
}

function calls(code, names) {
    return code ~ ("(^|[^A-Za-z0-9_.>])(" names ")[ \t]*\\(")
}

FILENAME == rooms_file {
    read_room($0)
    next
}

FNR == 1 {
    start_file()
}

{
    if (!strip_comment && $0 ~ /^[ \t]*#[ \t]*include/) {
        check_include($0)
        next
    }
    code = strip($0)
    if (room == "cli")
        next
    if (calls(code, "getenv|secure_getenv|setenv|putenv"))
        fail("the environment is read only in cli/")
    # base/err aborts on a broken assertion, base/arena aborts without memory, a child of
    # base/spawn that cannot execute its program ends itself.
    speaks = path ~ /^base\/(log|err|arena|spawn)\./
    if (!speaks && calls(code, "exit|_exit|_Exit|quick_exit|atexit"))
        fail("only cli/ ends the process or prints errors; return an sl_err")
    if (calls(code, "abort|assert") && room != "base")
        fail("use SL_ASSERT")
    if (!speaks && (code ~ /(^|[^A-Za-z0-9_])stderr([^A-Za-z0-9_]|$)/ || calls(code, "perror")))
        fail("messages to people go through base/log.h")
}

END {
    exit bad
}
