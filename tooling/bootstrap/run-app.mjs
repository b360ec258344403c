#!/usr/bin/env node
/** npm run gpt-train -- FLAGS, npm run bert-train -- FLAGS: prepares the checkout, then trains. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { runSources } from '../processes/run-sources.mjs';
import { asksForHelp } from './answer-help.mjs';
import { bootstrap, ensurePackages, root } from './bootstrap.mjs';

const [app, ...flags] = process.argv.slice(2);
if (asksForHelp(flags)) {
  // the help text needs installed packages, but no builds
  ensurePackages();
  process.exit(runSources(join(root, 'apps', app, 'src', 'main.ts'), flags));
}
// also builds the command mtl, because users need it after a training run
bootstrap(['build', 'build:native'], [`@mtl/${app}`, '@mtl/cli'], { isForThisMachine: true });
const program = join(root, 'apps', app, 'dist', 'main.js');
const child = spawn(process.execPath, [program, ...flags], { stdio: 'inherit' });
// a terminal sends Ctrl-C to this process and to the training run; the training run saves and ends, and this
// process waits for its end
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 143)));
