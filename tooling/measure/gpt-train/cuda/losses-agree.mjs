import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { peerEnvironment } from './run-measurement.mjs';

const app = fileURLToPath(new URL('../../../../apps/gpt-train', import.meta.url));

/** Makes PyTorch's loss curves on `device`. Returns the path of the file, or the problem. */
function makeCurves({ python, device, directory, seconds }) {
  const curves = join(directory, 'parity-curves.json');
  const script = join(app, '../../tooling/fixtures/gpt_parity.py');
  const args = [script, '--device', device, '--curves', curves];
  const ending = { timeout: seconds * 1000, killSignal: 'SIGKILL' };
  const options = { encoding: 'utf8', env: peerEnvironment(), ...ending };
  const { status, stderr, error } = spawnSync(python, args, options);
  if (status === 0) return { curves };
  const why = error?.message ?? `status ${status}`;
  return {
    problem: `${python} ${args.join(' ')}: ${why}\n${(stderr ?? '').split('\n').slice(-8).join('\n')}`,
  };
}

/**
 * Compares training runs of the parity recipe on device cuda with PyTorch's losses on the same GPU (for the
 * bounds, float32 1e-5 and bfloat16 2e-3, see test/parity-training.ts) and with our losses on the host. Also
 * checks that two runs give the same bits. `device` is PyTorch's device. If no Python has torch, or if it
 * cannot run the recipe, losses are compared with PyTorch's losses on a CPU, and a message reports this. Each
 * side has `seconds` to finish. If our side takes longer, the losses count as different.
 * @returns `agree`; `numCompared`, the number of tests, which is 0 without a device; `against`, the origin of
 * the
 *   losses for the comparison; `problem`, the reason why this was not PyTorch on `device`
 */
export function lossesAgree({ python, device, directory, seconds }) {
  const made =
    python === undefined
      ? { problem: 'no Python with torch' }
      : makeCurves({ python, device, directory, seconds });
  const against = made.curves ? `PyTorch on ${device}` : 'the fixture: PyTorch on a processor';
  console.log(`losses are compared with ${against}${made.problem ? ` (${made.problem})` : ''}`);
  const { MTL_PARITY_CURVES: _, ...environment } = process.env;
  if (made.curves) environment.MTL_PARITY_CURVES = made.curves;
  const report = join(directory, 'losses-agree.json');
  rmSync(report, { force: true });
  environment.MTL_TEST_REPORT = report;
  const args = [
    ...[join(app, 'node_modules/vitest/vitest.mjs'), 'run', 'test/cuda/training.test.ts'],
    ...['-t', 'steps on device cuda', '--reporter=verbose', '--reporter=json'],
  ];
  const { status } = spawnSync(process.execPath, args, {
    cwd: app,
    env: environment,
    stdio: 'inherit',
    timeout: seconds * 1000,
    killSignal: 'SIGKILL',
  });
  const numCompared = status === 0 ? JSON.parse(readFileSync(report, 'utf8')).numPassedTests : 0;
  return { agree: status === 0, numCompared, against, problem: made.problem ?? null };
}
