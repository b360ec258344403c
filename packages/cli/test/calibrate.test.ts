import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseProfile } from '@mtl/cost-model';
import { afterAll, describe, expect, it } from 'vitest';
import { spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

const flags = [
  ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '64', '--num-attention-heads', '2'],
  ...['--seq-length', '64', '--max-position-embeddings', '64', '--micro-batch-size', '2'],
  ...['--tokenizer-type', 'NullTokenizer', '--vocab-size', '1000'],
];

describe('mtl calibrate', () => {
  it('measures a profile, which mtl plan uses by default', async () => {
    const cwd = directory.path;
    const env = { MTL_PROFILE: join(cwd, 'new', 'profile.json') };
    const { status, stdout, stderr } = await spawnMtl(['calibrate', '--quick'], { cwd, env });
    expect({ status, stderr: stderr.includes('error') }).toEqual({ status: 0, stderr: false });
    expect(stdout).toMatch(/^1 process\(es\) of 1 thread\(s\)\n {2}matmuls +up to [\d.]+ GFLOP\/s in fp32$/m);
    expect(stdout).toContain(`wrote ${env.MTL_PROFILE}`);
    const { hardware } = parseProfile(JSON.parse(readFileSync(env.MTL_PROFILE, 'utf8')));
    expect(hardware.state).toBe('measured');
    const planned = await spawnMtl(['plan', '--', ...flags], { cwd, env });
    expect({ status: planned.status, stderr: planned.stderr }).toEqual({ status: 0, stderr: '' });
    expect(planned.stdout).toMatch(/^\d+ parameters on 1 x this-machine \(measured\)$/m);
    expect(planned.stdout).toMatch(/^ {2}step +[\d.]+ ms, [\d.]+ GFLOP\/s per process$/m);
  });

  it.each([
    [['--device', 'cuda'], /MTL_CUDA_LIBRARY.*no-such-library\.so[\s\S]*remedy: .*unset it/],
    [['--device', 'gpu'], /MTL_FLAG_VALUE.*--device gpu[\s\S]*cpu, cuda/],
  ])('refuses %j and writes nothing', async (words, message) => {
    const output = join(directory.path, 'refused.json');
    const { status, stderr } = await spawnMtl(['calibrate', ...words, '--output', output], {
      cwd: directory.path,
      env: { MTL_CUDA_LIBRARY: join(directory.path, 'no-such-library.so') },
    });
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
    expect(existsSync(output)).toBe(false);
  });
});
