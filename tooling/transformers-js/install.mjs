#!/usr/bin/env node
/**
 * npm run dev -- transformers-js: installs transformers.js with ONNX Runtime for Node and for browsers, as
 * compiled by their authors, into tooling/build/transformers-js. Tests of ONNX directories and of web pages
 * run models with these packages. No package in this project depends on them. Versions and checksums are in
 * package-lock.json; no install script runs, and nothing is compiled.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const own = fileURLToPath(new URL('.', import.meta.url));
const target = join(own, '../build/transformers-js');
const mark = join(target, 'installed.json');

const lock = readFileSync(join(own, 'package-lock.json'), 'utf8');
if (existsSync(mark) && readFileSync(mark, 'utf8') === lock) {
  console.log('transformers-js: installed');
  process.exit(0);
}
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
for (const name of ['package.json', 'package-lock.json']) cpSync(join(own, name), join(target, name));
const flags = ['--ignore-scripts', '--no-audit', '--no-fund'];
const { status } = spawnSync('npm', ['ci', ...flags], { cwd: target, stdio: 'inherit' });
if (status === 0) writeFileSync(mark, lock);
process.exit(status ?? 1);
