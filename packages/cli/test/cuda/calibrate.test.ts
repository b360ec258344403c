import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseProfile } from '@mtl/cost-model';
import { findGpu } from '@mtl/kernels/internal';
import { afterAll, describe, expect, it } from 'vitest';
import { spawnMtl } from '../support/spawn-mtl.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const { title, problem, device, probe } = findGpu();
const directory = temporaryDirectory();
afterAll(() => directory.dispose());

const flags = [
  ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '64', '--num-attention-heads', '2'],
  ...['--seq-length', '64', '--max-position-embeddings', '64', '--micro-batch-size', '2', '--bf16'],
  ...['--tokenizer-type', 'NullTokenizer', '--vocab-size', '1000'],
];

describe.skipIf(problem !== undefined)(`mtl calibrate --device cuda (${title})`, () => {
  it('measures a profile of the GPU, with which mtl plan predicts runs on it', async () => {
    const cwd = directory.path;
    const env = { MTL_PROFILE: join(cwd, 'profile.json') };
    const { status, stdout, stderr } = await spawnMtl(['calibrate', '--device', 'cuda', '--quick'], {
      cwd,
      env,
    });
    expect({ status, stderr: stderr.includes('error') }).toEqual({ status: 0, stderr: false });
    expect(stdout).toMatch(/^1 GPU\(s\)\n {2}matmuls +up to [\d.]+ GFLOP\/s in bf16$/m);
    expect(stdout).toMatch(/^ {2}host +[\d.]+ us for an operation, [\d.]+ ms for a step$/m);
    const { hardware, software } = parseProfile(JSON.parse(readFileSync(env.MTL_PROFILE, 'utf8')));
    if (hardware.state !== 'measured') throw new Error('not measured');
    expect(hardware.device).toContain(device!.name);
    expect(hardware.memoryBytes.value).toBe(device!.memoryBytes);
    expect(hardware.gpusPerNode.value).toBe(probe!.devices.length);
    expect(software.hostSecondsPerOperation.value).toBeGreaterThan(1e-7);
    // the row sums of attention's backward pass have a rate of their own
    expect(hardware.rates[0]!.kernels.map(({ name }) => name)).toContain('attention_row_sums');
    const planned = await spawnMtl(['plan', '--', ...flags], { cwd, env });
    expect({ status: planned.status, stderr: planned.stderr }).toEqual({ status: 0, stderr: '' });
    expect(planned.stdout).toMatch(/^\d+ parameters on 1 x this-machine \(measured\)$/m);
    // cuBLASLt's workspace: it is planned for device cuda
    expect(planned.stdout).toMatch(/workspace/);
  });
});
