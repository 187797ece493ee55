"""Build backend of the Python package (PEP 517), without other packages.

    build_wheel: cmake --build -> cmake --install into a folder -> a wheel

A wheel holds python/sluice, the shared library, the libraries that it loads other than libc, and the
models. SLUICE_BUILD names a build tree that is used instead of build/release. Zip entries have a fixed
order and time: the same tree gives the same bytes.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIME = (1980, 1, 1, 0, 0, 0)
OF_LIBC = ("libc.so.", "libm.so.", "libpthread.so.", "libdl.so.", "librt.so.", "ld-linux",
           "linux-vdso", "libsluice")


def _run(*command):
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, stdout=sys.stderr)


def _version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\([^)]*VERSION\s+([0-9.]+)", text).group(1)


def _tag():
    return "py3-none-linux_" + platform.machine()


def _build():
    build = pathlib.Path(os.environ.get("SLUICE_BUILD", ROOT / "build/release"))
    if not (build / "CMakeCache.txt").is_file():
        for tool in ("cmake", "ninja", "cc"):
            if not shutil.which(tool):
                sys.exit(f"sluice: building needs {tool}; './dev setup' installs it, or install "
                         "a wheel")
        _run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             "-DSL_TESTS=OFF")
    if shutil.which("cmake") and "SLUICE_BUILD" not in os.environ:
        _run("cmake", "--build", build)
    return build


def _libraries(file):
    """Libraries that a file loads: (name, path)."""
    said = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True).stdout
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", said, re.MULTILINE):
        if not name.startswith(OF_LIBC):
            yield name, path


def _contents(build, folder):
    """(name in the wheel, file) of all files."""
    prefix = folder / "prefix"
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix), "--strip"],
                   check=True, stdout=subprocess.DEVNULL)
    library = next(prefix.glob("**/libsluice.so.*.*.*"))
    soname = ".".join(library.name.split(".")[:4])
    package = ROOT / "python/sluice"
    yield from ((f"sluice/{f.name}", f) for f in sorted(package.iterdir())
                if f.suffix in (".py", ".typed"))
    yield f"sluice/lib/{soname}", library
    found = {}
    for name, path in _libraries(library):
        found[name] = path
    for name, path in sorted(found.items()):
        yield f"sluice/lib/sluice/{name}", path
    for module in sorted(prefix.glob("**/sluice/libsluice_mpi.so")):
        yield f"sluice/lib/sluice/{module.name}", module
    for model in sorted((prefix / "share/sluice/models").iterdir()):
        yield f"sluice/models/{model.name}", model


def _metadata(version):
    return (f"Metadata-Version: 2.1\nName: sluice\nVersion: {version}\n"
            "Summary: Pipeline-parallel training: planning, scheduling, verification and "
            "execution\nRequires-Python: >=3.9\n")


def _write(wheel, record, name, data, mode=0o644):
    info = zipfile.ZipInfo(name, TIME)
    info.external_attr = (0o100000 | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(info, data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(data)}")


def _write_info(wheel, record, version):
    info = f"sluice-{version}.dist-info"
    _write(wheel, record, f"{info}/METADATA", _metadata(version).encode())
    _write(wheel, record, f"{info}/WHEEL", ("Wheel-Version: 1.0\nGenerator: sluice\n"
           f"Root-Is-Purelib: false\nTag: {_tag()}\n").encode())
    _write(wheel, record, f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes())
    record.append(f"{info}/RECORD,,")
    wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD", TIME), "\n".join(record) + "\n")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version, record = _version(), []
    name = f"sluice-{version}-{_tag()}.whl"
    build = _build()
    with tempfile.TemporaryDirectory() as folder, \
            zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
        for inside, file in _contents(build, pathlib.Path(folder)):
            mode = 0o755 if ".so" in inside else 0o644
            _write(wheel, record, inside, pathlib.Path(file).read_bytes(), mode)
        _write_info(wheel, record, version)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("sluice: there is no source distribution; install a wheel or a source tree")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/dist")
    target.mkdir(parents=True, exist_ok=True)
    print(target / build_wheel(target))
