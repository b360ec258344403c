import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { peerEnvironment } from './run-measurement.mjs';

const app = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Whether trainings of the parity recipe on device cuda have PyTorch's losses on the same card (float32 1e-5, bfloat16 2e-3:
 * test/parity-training.ts), ours of the host, and the same bits twice. Without a Python that has torch they are held against
 * PyTorch's on a processor. `device` is where PyTorch runs.
 */
export function lossesAgree({ python, device, directory }) {
  const environment = { ...process.env };
  if (python !== undefined) {
    const curves = join(directory, 'parity-curves.json');
    const script = join(app, '../../tooling/fixtures/gpt_parity.py');
    const args = [script, '--device', device, '--curves', curves];
    const { status, stderr } = spawnSync(python, args, { encoding: 'utf8', env: peerEnvironment() });
    if (status !== 0) throw new Error(`${python} ${args.join(' ')}: status ${status}\n${stderr}`);
    environment.MTL_PARITY_CURVES = curves;
  }
  const vitest = join(app, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', 'test/cuda', '--reporter=verbose'];
  return spawnSync(process.execPath, args, { cwd: app, env: environment, stdio: 'inherit' }).status === 0;
}
