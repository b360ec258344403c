#!/usr/bin/env node
/**
 * Finds functions that the linker would merge between instruction sets.
 * node check-isa-symbols.mjs [--build-dir packages/kernels/build/Release] [--self-test]
 * Vectorised kernels are compiled once per instruction set (object libraries simd_*). If an inline function
 * or a template is in two of these libraries, it is a weak symbol. The linker keeps only one copy of such a
 * symbol, perhaps the copy for AVX-512. An old processor would then crash in an unrelated place. Therefore
 * these libraries must not define weak or unique symbols.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

/** Data that may be shared: a pointer to the exception personality routine, which contains no code. */
const harmless = /^DW\.ref\./;

/**
 * Returns the demangled names of an object file's weak functions (W), weak data (V) and unique symbols (u).
 */
function sharedSymbols(object) {
  const result = spawnSync('nm', ['--defined-only', '--demangle', object], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (result.status !== 0) throw new Error(`nm ${object}: ${result.stderr ?? result.error}`);
  return result.stdout
    .split('\n')
    .map((line) => /^[0-9a-f]*\s+([WVu])\s+(.*)$/.exec(line))
    .filter((match) => match !== null && !harmless.test(match[2]))
    .map((match) => `${match[1]} ${match[2]}`);
}

function objectsUnder(directory) {
  return readdirSync(directory, { recursive: true })
    .map((path) => join(directory, path))
    .filter((path) => /\/simd_[^/]*\.dir\/.*\.o$/.test(path));
}

/**
 * Tests this check: it must find an inline function that is compiled with the kernels' flags, and it must
 * accept our kernels.
 */
function selfTest() {
  const directory = mkdtempSync(join(tmpdir(), 'isa-symbols-'));
  const compiled = (name, source) => {
    const file = join(directory, `${name}.cc`);
    writeFileSync(file, source);
    const object = join(directory, `${name}.o`);
    const result = spawnSync(process.env.CXX ?? 'c++', ['-O0', '-c', file, '-o', object], {
      encoding: 'utf8',
    });
    if (result.status !== 0) throw new Error(`the compiler failed: ${result.stderr ?? result.error}`);
    return sharedSymbols(object);
  };
  try {
    const body = '(float x) { return x * x; }\nfloat use(float x) { return square(x); }\n';
    const shared = compiled('shared', `inline float square${body}`);
    const local = compiled('local', `namespace { inline float square${body.replace('\n', '\n}\n')}`);
    const unique = compiled(
      'unique',
      'template <typename T> T& one() { static T value; return value; }\nint use() { return one<int>(); }\n',
    );
    if (shared.length !== 1 || local.length !== 0 || unique.length < 2) {
      throw new Error(
        `found ${JSON.stringify({ shared, local, unique })}, expected 1, 0 and 2 or more symbols`,
      );
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const args = process.argv.slice(2);
if (args.includes('--self-test')) {
  selfTest();
  console.log('check-isa-symbols: an inline function of the kernels would be found');
  process.exit(0);
}
const at = args.indexOf('--build-dir');
const directory = at < 0 ? 'packages/kernels/build/Release' : args[at + 1];
const objects = existsSync(directory) ? objectsUnder(directory) : [];
if (objects.length === 0) {
  console.error(
    `error[MTL_CHECK]: no objects of the vectorised kernels under ${directory}\n  remedy: npm run build:native`,
  );
  process.exit(2);
}
const found = objects.flatMap((object) =>
  sharedSymbols(object).map(
    (symbol) =>
      `${object.split('/').find((part) => part.startsWith('simd_'))}/${basename(object)}: ${symbol}`,
  ),
);
if (found.length > 0) {
  console.error(
    `error[MTL_CHECK]: the linker would merge these between instruction sets:\n  ${found.join('\n  ')}\n` +
      '  remedy: put them into an anonymous namespace (native/backends/cpu/simd/simd.h says why)',
  );
  process.exit(1);
}
console.log(`check-isa-symbols: ${objects.length} objects share nothing between instruction sets`);
