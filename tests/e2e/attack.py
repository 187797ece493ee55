"""Attackers of a job: python3 attack.py MODE HOST PORT [FILE]. Prints what they got.

listen      be a rank 0 without the key: print how many bytes callers send after our hello
record      between caller and rank 0: pass everything on, write both directions to FILE
replay      send what FILE holds of a caller; print 'in' if the other end proves itself
reflect     answer each caller with its own bytes
silent N    N connections that say nothing, held for a minute
flood S     connections with random bytes for S seconds, as fast as possible
"""
import os, select, socket, struct, sys, time

mode, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
MAGIC = 0x32656369756C7301
HELLO = 40


def listener():
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((host, port))
    s.listen(100)
    print("ready", flush=True)
    return s


def calm(s, seconds=1.0):
    """Everything that arrives until nothing does."""
    got = b""
    s.settimeout(seconds)
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return got
            got += piece
    except (TimeoutError, OSError):
        return got


def listen():
    s = listener()
    end = time.monotonic() + float(sys.argv[4])
    s.settimeout(0.2)
    while time.monotonic() < end:
        try:
            c, _ = s.accept()
        except TimeoutError:
            continue
        try:
            calm(c, 0.3)
            c.sendall(struct.pack("<Q", MAGIC) + os.urandom(32))
            proof = calm(c, 0.3)
            c.sendall(os.urandom(len(proof)) + os.urandom(4096))  # a proof without the key, and a table
            print("after a false proof:", len(calm(c, 0.3)), flush=True)
        except OSError:
            pass
        c.close()


def record():
    target = (host, int(sys.argv[4]))
    s = listener()
    seen = open(sys.argv[5], "wb")
    c, _ = s.accept()
    while True:
        try:
            u = socket.create_connection(target)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    while True:
        ready, _, _ = select.select([c, u], [], [])
        for a, b, keep in ((c, u, True), (u, c, False)):
            if a in ready:
                piece = a.recv(65536)
                if not piece:
                    return
                if keep:
                    seen.write(piece)
                    seen.flush()
                b.sendall(piece)


def replay():
    seen = open(sys.argv[4], "rb").read()
    c = socket.create_connection((host, port))
    c.sendall(seen[:HELLO])
    hello = calm(c, 1)
    c.sendall(seen[HELLO : HELLO + int(sys.argv[5])])
    print("in" if calm(c, 1) else "out", len(hello), flush=True)


def reflect():
    s = listener()
    end = time.monotonic() + float(sys.argv[4])
    s.settimeout(0.2)
    while time.monotonic() < end:
        try:
            c, _ = s.accept()
        except TimeoutError:
            continue
        for _ in range(3):
            c.settimeout(0.3)
            try:
                c.sendall(c.recv(65536))
            except OSError:
                break
        c.close()


def silent():
    held = []
    while len(held) < int(sys.argv[4]):
        try:
            held.append(socket.create_connection((host, port)))
        except ConnectionRefusedError:
            time.sleep(0.02)
    print("ready", len(held), flush=True)
    time.sleep(60)


def flood():
    end, count = time.monotonic() + float(sys.argv[4]), 0
    print("ready", flush=True)
    while time.monotonic() < end:
        try:
            c = socket.create_connection((host, port), timeout=1)
            c.sendall(os.urandom(400))
            c.close()
            count += 1
        except OSError:
            time.sleep(0.01)
    print("connections:", count, flush=True)


globals()[mode]()
