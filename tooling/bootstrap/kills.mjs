#!/usr/bin/env node
/**
 * npm run dev -- kills [COUNT]: kills ranks of two training runs with SIGKILL, 20 times in each run by
 * default, in the middle of steps and while the ranks start. The runs use every form of parallelism, and
 * sharded parameters that are saved in the background. The loss curves must be the same as in runs without
 * kills.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run dev -- kills [COUNT]

Builds what is not built yet, and kills ranks of two training runs COUNT times each [20], in the middle of steps and while
they start: in every form of parallelism, and with sharded parameters that are saved in the background. The curves must
equal the curves of runs without kills.`);
const [count = '20'] = process.argv.slice(2);
if (!/^[1-9]\d{0,3}$/.test(count)) {
  console.error(
    `error[MTL_FLAG_VALUE]: kills ${count} cannot be used; expected a whole number from 1 to 9999`,
  );
  process.exit(2);
}
bootstrap(['build', 'build:native']);
const args = ['run', 'test/failing-processes.test.ts', '-t', 'goes on after ranks are killed'];
const env = { ...toolEnvironment(), MTL_TEST_KILLS: count };
const cwd = join(root, 'apps/gpt-train');
const { status, error } = spawnSync(join(cwd, 'node_modules/.bin/vitest'), args, {
  cwd,
  env,
  stdio: 'inherit',
});
if (error !== undefined) throw error;
process.exit(status ?? 1);
