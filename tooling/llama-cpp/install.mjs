#!/usr/bin/env node
/**
 * npm run dev -- llama-cpp: installs node-llama-cpp, with the llama.cpp that its authors compiled for the
 * CPU, and @huggingface/gguf, into tooling/build/llama-cpp. Tests of GGUF files compare their results with
 * these packages. No package depends on them. The versions and checksums are in package-lock.json. No script
 * of a package runs, and nothing is compiled.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const own = fileURLToPath(new URL('.', import.meta.url));
const target = join(own, '../build/llama-cpp');
const mark = join(target, 'installed.json');

const lock = readFileSync(join(own, 'package-lock.json'), 'utf8');
if (process.platform !== 'linux' || process.arch !== 'x64') {
  console.error(
    `llama-cpp: the tests use the build for linux-x64, and this is ${process.platform}-${process.arch}`,
  );
  process.exit(2);
}
if (existsSync(mark) && readFileSync(mark, 'utf8') === lock) {
  console.log('llama-cpp: installed');
  process.exit(0);
}
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
for (const name of ['package.json', 'package-lock.json']) cpSync(join(own, name), join(target, name));
// the optional packages are builds for GPUs and for other platforms than this one
const flags = ['--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund'];
const { status } = spawnSync('npm', ['ci', ...flags], { cwd: target, stdio: 'inherit' });
if (status === 0) writeFileSync(mark, lock);
process.exit(status ?? 1);
