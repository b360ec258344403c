#!/usr/bin/env node
/** npm run gpt-train -- FLAGS: makes the checkout ready, then trains. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { bootstrap, root } from './bootstrap.mjs';

bootstrap(['build', 'build:native'], ['@mtl/gpt-train']);
const program = join(root, 'apps', 'gpt-train', 'dist', 'main.js');
const child = spawn(process.execPath, [program, ...process.argv.slice(2)], { stdio: 'inherit' });
// A terminal sends Ctrl-C to both of us; the training saves and ends, and we wait for it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 143)));
