#!/usr/bin/env node
/**
 * npm run dev -- NAME [ARGUMENTS]: runs a command for developers that is not a script in package.json, after
 * preparing what the command needs. If NAME is missing or unknown, prints the list of commands and ends with
 * status 2.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatCommand, programs, readHelp } from '../measure/programs.mjs';
import { asksForHelp } from './answer-help.mjs';
import { bootstrap, ensurePackages, root, toolEnvironment } from './bootstrap.mjs';

const builds =
  (...filters) =>
  () =>
    bootstrap(['build', 'build:native'], filters);

/** The programs in tooling/measure. The comment at the top of each file is the program's help text. */
const measurements = Object.fromEntries(
  Object.entries(programs).map(([name, program]) => [
    name,
    {
      about: program.about,
      takes: '[FLAGS]',
      help: `Builds what is not built yet, and runs tooling/measure/${program.file ?? 'kernels'}.\n\n${readHelp(program)}`,
      prepare: () => {
        builds()();
        const { target } = program;
        if (target === undefined) return;
        const native = join(root, 'tooling/native/build-native.mjs');
        runCommand(['node', native, '--target', target], { cwd: join(root, 'packages/kernels') });
      },
      command: formatCommand(program),
    },
  ]),
);

/**
 * The commands by name. `about`: the command's line in the list. `takes`, `help`: the help text; without
 * them, the program itself answers --help. `prepare`: runs first; without it, the program prepares what it
 * needs. `command`: runs in the root of the checkout, with the arguments appended.
 */
export const commands = {
  boundaries: {
    about: 'Checks which package imports which: a second.',
    command: 'node tooling/bootstrap/checks.mjs boundaries',
  },
  api: {
    about: 'Writes the API reference from the docstrings.',
    takes: '[--out DIRECTORY]',
    help: 'Writes the API reference of all packages as HTML. [tooling/build/api]',
    prepare: ensurePackages,
    command: 'node tooling/api/build-api.mjs',
  },
  'build:packages': {
    about: 'Builds packages and apps, without declarations.',
    prepare: ensurePackages,
    command: 'node tooling/tsup/build-packages.mjs',
  },
  'build:types': {
    about: 'Builds packages and apps with declarations, which packing needs.',
    prepare: ensurePackages,
    command: 'node tooling/tsup/build-packages.mjs --declarations',
  },
  'build:cuda': {
    about: 'Compiles the CUDA library; needs nvcc.',
    takes: '[-DCMAKE_DEFINITION ...]',
    help: 'Compiles packages/kernels/build/Cuda/libmtl_cuda.so. Needs nvcc, from the CUDA toolkit 13.',
    prepare: ensurePackages,
    command: 'turbo run build:cuda --',
  },
  'build:wasm': {
    about: 'Compiles the kernels to WebAssembly.',
    takes: '[shared] [single] [relaxed] [--package] [-DCMAKE_DEFINITION ...]',
    help: `Compiles the modules in packages/kernels/build/Wasm that MTL_KERNELS=wasm, wasm-single and wasm-relaxed use: all
three, or the named ones. Needs LLVM 19 with its libraries for WebAssembly, which are installed on Debian 12 as root.

  --package  Puts all three into platforms/kernels-wasm32, with licences, to be published.`,
    prepare: ensurePackages,
    command: 'node tooling/native/build-wasm.mjs',
  },
  'build:platform': {
    about: 'Compiles and checks the platform packages of this platform.',
    command: 'node tooling/release/build-platform.mjs',
  },
  'test:wasm': {
    about: 'Tests kernels as WebAssembly, and what people do with them.',
    takes: '[--node VERSION ...] [VITEST FLAGS]',
    help: `Compiles the kernels to WebAssembly, as build:wasm does, and runs the tests that tooling/webassembly/tests.mjs lists
with them, in Node and in a page of Chromium.

  --node VERSION  Runs them in this version of Node, which npm downloads, or in the executable of this path, in place of
                  the Node that runs the command. May be repeated.`,
    prepare: builds(),
    command: 'node tooling/webassembly/run-tests.mjs',
  },
  'test:arm64': {
    about: 'Tests the platform packages of arm64 under qemu.',
    prepare: builds(),
    command: 'node tooling/arm64/run-tests.mjs',
  },
  'test:bare': {
    about: 'Trains from tarballs in roots with Node alone: x86-64, musl, arm64.',
    prepare: () => {
      builds()();
      const wasm = ['node', join(root, 'tooling/native/build-wasm.mjs'), 'shared'];
      const platform = ['node', join(root, 'tooling/release/build-platform.mjs'), '--cpu', 'arm64'];
      if (runCommand(wasm) !== 0 || runCommand(platform) !== 0) process.exit(1);
    },
    command: 'node tooling/bare-roots/run.mjs',
  },
  'test:cuda': {
    about: 'Tests device cuda on a GPU and under emulation.',
    command: 'node tooling/bootstrap/test-cuda.mjs',
  },
  'bench:cuda': {
    about: 'Runs the benchmarks of a GPU.',
    command: 'node tooling/cuda/bench-cuda.mjs',
  },
  'bundle:cuda': {
    about: 'Packs what a machine with a GPU needs to run all of it.',
    command: 'node tooling/cuda/make-bundle.mjs',
  },
  bench: {
    about: 'Runs the benchmarks, one after the other; also npm run bench.',
    takes: '[NAME ...]',
    help: `Builds what is not built yet, and runs the benchmarks, one after the other. Ends with status 1 where one failed.

  NAME  Only these, by their names in the list of npm run dev.`,
    prepare: builds(),
    command: 'node tooling/measure/run-benchmarks.mjs',
  },
  parity: {
    about: 'Compares training runs in many layouts with one process.',
    takes: '[FLAGS]',
    help: `Builds what is not built yet, and compares training runs in many layouts of processes with one process.

  --steps N    Optimizer steps. [100]
  --only TEXT  Layouts whose name contains it.
  --few        A sample of the layouts, or of the faults, with every axis and model.
  --all        Everything crossed with everything.
  --faults     Injects faults instead, and fails when one is not noticed.
  --each-step  In float32 also compares every step by itself, taken from the state that one process had before it.
               Without it, layouts do whose norms alone are out of bounds, or in which a tie decided about experts.
  --json FILE  Writes the results.`,
    prepare: builds(),
    command: 'node packages/runs/parity/parity.mjs',
  },
  fuzz: {
    about: 'Damages files of every format and reads them.',
    prepare: builds(),
    command: 'node tooling/fuzz/fuzz.mjs',
  },
  kills: {
    about: 'Kills ranks of a training run and compares the loss curve.',
    command: 'node tooling/bootstrap/kills.mjs',
  },
  'llama-cpp': {
    about: 'Installs llama.cpp, with which tests of GGUF files compare.',
    takes: '',
    help: `Installs node-llama-cpp, compiled for the CPU by its authors, into tooling/build/llama-cpp. Without it, the tests that
compare GGUF files with llama.cpp skip.`,
    command: 'node tooling/llama-cpp/install.mjs',
  },
  'transformers-js': {
    about: 'Installs transformers.js, with which tests of ONNX directories compare.',
    takes: '',
    help: `Installs @huggingface/transformers with ONNX Runtime for Node and for browsers (475 MB) into
tooling/build/transformers-js. Without it, the tests that run ONNX directories and pages skip.`,
    command: 'node tooling/transformers-js/install.mjs',
  },
  compatibility: {
    about: 'Writes the files of this version that later versions must read.',
    takes: '[FLAGS]',
    help: `Builds what is not built yet, and writes a dataset, a configuration file and the run folder of a small GPT into
packages/cli/fixtures/compatibility/VERSION (docs/compatibility.md). Run it once for a release, before its commit.

  --force  Replaces the folder of a version that has not been released.`,
    prepare: builds('@mtl/gpt-train', '@mtl/cli'),
    command:
      'node --conditions=@mtl/source --import ./tooling/vitest/typescript-loader.mjs packages/cli/test/support/compatibility/write-fixture.ts',
  },
  ...measurements,
};

/** Returns the length of the longest common subsequence of two names, in letters. */
function numCommonLetters(a, b) {
  let lengths = Array(b.length + 1).fill(0);
  for (const letter of a) {
    const before = lengths;
    lengths = [0];
    for (let at = 1; at <= b.length; at++) {
      const matched = b[at - 1] === letter ? before[at - 1] + 1 : 0;
      lengths.push(Math.max(matched, before[at], lengths[at - 1]));
    }
  }
  return lengths[b.length];
}

/**
 * Returns the command whose name is most similar to `name`; undefined if no command has at least 60 % of the
 * letters in common with it.
 */
function nearestCommand(name) {
  const [best] = Object.keys(commands)
    .map((known) => ({
      known,
      share: (2 * numCommonLetters(name, known)) / (name.length + known.length),
    }))
    .sort((a, b) => b.share - a.share);
  return best.share >= 0.6 ? best.known : undefined;
}

function list() {
  const width = Math.max(...Object.keys(commands).map((name) => name.length));
  const lines = Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(width)}  ${about}`);
  return `usage: npm run dev -- NAME [ARGUMENTS]\n\n${lines.join('\n')}\n
npm run dev -- NAME --help describes a command.`;
}

/** Reports a missing or unknown NAME, with the most similar name and the list of commands. */
function refuse(name) {
  const nearest = name === undefined ? undefined : nearestCommand(name);
  const what = name === undefined ? 'no command is named' : `there is no command ${name}`;
  const meant = nearest === undefined ? '' : `; did you mean ${nearest}?`;
  console.error(`error[MTL_FLAG_VALUE]: npm run dev: ${what}${meant}\n${list()}`);
  return 2;
}

/** Runs a command and returns its exit status. */
function runCommand(words, { cwd = root } = {}) {
  const [program, ...args] = words;
  const command = program === 'node' ? process.execPath : program;
  const how = { cwd, env: toolEnvironment(), stdio: 'inherit' };
  const { status, error } = spawnSync(command, args, how);
  if (error !== undefined) throw error;
  return status ?? 1;
}

function dev([name, ...args]) {
  if (name === '--help' || name === '-h') {
    console.log(list());
    return 0;
  }
  if (name === undefined || !Object.hasOwn(commands, name)) return refuse(name);
  const { takes, help, prepare, command } = commands[name];
  if (asksForHelp(args) && help !== undefined) {
    console.log(`usage: npm run dev -- ${name} ${takes}\n\n${help}`);
    return 0;
  }
  if (!asksForHelp(args)) prepare?.();
  return runCommand([...command.split(' '), ...args]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(dev(process.argv.slice(2)));
