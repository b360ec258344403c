#!/usr/bin/env node
/** npm run gpt-train -- FLAGS, npm run bert-train -- FLAGS: makes the checkout ready, then trains. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { runSources } from '../processes/run-sources.mjs';
import { asksForHelp } from './answer-help.mjs';
import { bootstrap, ensurePackages, root } from './bootstrap.mjs';

const [app, ...flags] = process.argv.slice(2);
if (asksForHelp(flags)) {
  // which needs packages, but nothing that is compiled
  ensurePackages();
  process.exit(runSources(join(root, 'apps', app, 'src', 'main.ts'), flags));
}
// and the command mtl, for all that comes after a training run
bootstrap(['build', 'build:native'], [`@mtl/${app}`, '@mtl/cli'], { isForThisMachine: true });
const program = join(root, 'apps', app, 'dist', 'main.js');
const child = spawn(process.execPath, [program, ...flags], { stdio: 'inherit' });
// A terminal sends Ctrl-C to both of us; the training run saves and ends, and we wait for it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 143)));
