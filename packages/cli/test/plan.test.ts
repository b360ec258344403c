import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { spawnMtl } from './support/spawn-mtl.js';

const cwd = tmpdir();
const large = ['--preset', 'megatron-8.3b', '--bf16'];

describe('mtl plan', () => {
  it('predicts the memory of a process', async () => {
    const { status, stdout } = await spawnMtl(['plan', '--json', '--', '--preset', 'gpt2-124m'], { cwd });
    expect(status).toBe(0);
    const { parameters, optimizer, total } = JSON.parse(stdout) as Record<string, number>;
    // 50,257 tokens padded to 50,304, 1,024 positions, 12 layers of 768 (Radford et al. 2019), in float32
    expect(parameters).toBe(4 * 124_475_904);
    expect(optimizer).toBe(8 * 124_475_904);
    expect(total).toBeGreaterThan(16 * 124_475_904);
  });

  it('says what would make a training fit', async () => {
    const argv = ['plan', '--num-processes', '16', '--memory', '80', '--', ...large];
    const { status, stdout } = await spawnMtl(argv, { cwd });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^does not fit into 80\.0 GiB; with one change:$/m);
    expect(stdout).toMatch(/^ {2}--use-distributed-optimizer +[\d.]+ GiB$/m);
    expect(stdout).toMatch(/^ {2}--tensor-model-parallel-size 4 +[\d.]+ GiB, fits$/m);
  });

  it('refuses what the training would refuse', async () => {
    const argv = ['plan', '--', ...large, '--tensor-model-parallel-size', '2'];
    const { status, stderr } = await spawnMtl(argv, { cwd });
    expect(status).toBe(2);
    expect(stderr).toContain('error[MTL_WORLD_SIZE]');
  });
});
