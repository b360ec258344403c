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

  it('predicts the memory of a BERT, whose head reads masked tokens only', async () => {
    const flags = ['--preset', 'bert-base', '--micro-batch-size', '8', '--threads', '1'];
    const argv = ['plan', '--json', '--model', 'bert', '--', ...flags];
    const { status, stdout, stderr } = await spawnMtl(argv, { cwd });
    expect({ status, stderr }).toMatchObject({ status: 0 });
    const { parameters, total } = JSON.parse(stdout) as { parameters: number; total: number };
    // 12 layers of 768; vocabulary of the bundled corpus: 4,096 tokens; 512 positions, two types;
    // the norm after the layers; pooler, two dense layers, a norm, biases
    const heads = 768 * 768 + 768 + 2 * 768 + 4096 + (768 * 768 + 768 + 2 * 768 + 2);
    const embeddings = (4096 + 512 + 2) * 768;
    expect(parameters).toBe(4 * (12 * (12 * 768 * 768 + 13 * 768) + embeddings + 2 * 768 + heads));
    const post = await spawnMtl([...argv, '--layer-norm-placement', 'post'], { cwd });
    expect((JSON.parse(post.stdout) as { parameters: number }).parameters).toBe(parameters);
    expect(total).toBeGreaterThan(4 * parameters);
  });

  it('reports what would make a training run fit', async () => {
    const argv = ['plan', '--num-processes', '16', '--memory', '80', '--', ...large];
    const { status, stdout } = await spawnMtl(argv, { cwd });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^does not fit into 80\.0 GiB; with one change:$/m);
    expect(stdout).toMatch(/^ {2}--use-distributed-optimizer +[\d.]+ GiB$/m);
    expect(stdout).toMatch(/^ {2}--tensor-model-parallel-size 4 +[\d.]+ GiB, fits$/m);
  });

  it('prints which flags have no effect', async () => {
    const flags = ['--preset', 'gpt2-124m', '--use-flash-attn', '--sequence-parallel'];
    const { status, stdout } = await spawnMtl(['plan', '--', ...flags], { cwd });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^note: --use-flash-attn on the command line has no effect: .+$/m);
    expect(stdout).toMatch(/^note: --sequence-parallel has no effect with .+$/m);
  });

  it('shows every stage of a pipeline', async () => {
    const flags = [
      '--preset',
      'gpt2-124m',
      '--pipeline-model-parallel-size',
      '2',
      '--global-batch-size',
      '8',
    ];
    const layout = ['--pipeline-model-parallel-layout', 'Et*8|t*4L'];
    const argv = ['plan', '--num-processes', '2', '--', ...flags, '--micro-batch-size', '1', ...layout];
    const { status, stdout } = await spawnMtl(argv, { cwd });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^schedule 1f1b, 8 micro-batches a step$/m);
    expect(stdout).toMatch(/^ {2}stage 0 +8 layers: parameters .*total [\d.]+ GiB$/m);
    expect(stdout).toMatch(/^ {2}stage 1 +4 layers: /m);
    const json = await spawnMtl(['plan', '--json', ...argv.slice(1)], { cwd });
    const { parameters, stages } = JSON.parse(json.stdout) as {
      parameters: number;
      stages: readonly { parameters: number }[];
    };
    // the whole model and, since the embedding is tied, its 50,304 rows of 768 once more
    const sum = stages.reduce((total, stage) => total + stage.parameters, 0);
    expect(sum).toBe(4 * (124_475_904 + 50_304 * 768));
    expect(parameters).toBe(stages[0]!.parameters);
  });

  // Narayanan et al. 2021, section 5.1: GPT-3 on 1,024 A100s at 140 TFLOP/s, and a trillion parameters on
  // 3,072
  it.each([
    { model: '96 12288 96', n: 1024, p: 8, batch: 1536, tokens: 300e9, rate: 140, days: 34 },
    { model: '128 25600 160', n: 3072, p: 64, batch: 3072, tokens: 450e9, rate: 163, days: 84 },
  ])('predicts the $days days of the paper', async ({ n, p, batch, tokens, rate, days, ...paper }) => {
    const [layers, hidden, heads] = paper.model.split(' ');
    const flags =
      `--preset none --num-layers ${layers} --hidden-size ${hidden} --num-attention-heads ${heads} --bf16 ` +
      `--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size ${batch} --lr 1e-4 ` +
      `--train-samples ${Math.round(tokens / 2048)} --tokenizer-type NullTokenizer --vocab-size 51200 ` +
      `--tensor-model-parallel-size 8 --pipeline-model-parallel-size ${p}`;
    // the paper counts a second forward pass as well
    const measured = ['--num-processes', `${n}`, '--tflops', `${(rate * 3) / 4}`];
    const argv = ['plan', ...measured, '--json', '--', ...flags.split(' ')];
    const { status, stdout, stderr } = await spawnMtl(argv, { cwd });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const { time } = JSON.parse(stdout) as { time: { seconds: number; tokens: number } };
    expect(time.tokens / tokens).toBeCloseTo(1, 4);
    // 8 T P / (n X) leaves out attention and logits, 2 % of these FLOPs, and the paper rounds to whole days
    expect(Math.abs(time.seconds / 86_400 / days - 1)).toBeLessThan(0.02 + 0.5 / days);
  });

  it('reports how long a training run takes', async () => {
    const rampup = ['--global-batch-size', '32', '--rampup-batch-size', '8', '8', '640'];
    const flags = ['--preset', 'gpt2-124m', '--train-samples', '2260', '--micro-batch-size', '8', ...rampup];
    const { status, stdout } = await spawnMtl(['plan', '--tflops', '0.5', '--', ...flags], { cwd });
    expect(status).toBe(0);
    // steps of 8 samples until 213, of 16 until 427, of 24 until 640: 27, 14, 9; then 50 of 32, and 4 samples
    // are left
    const samples = 27 * 8 + 14 * 16 + 9 * 24 + 50 * 32;
    expect(stdout).toContain(
      `  training   100 iterations, ${(samples * 1024).toLocaleString('en-US')} tokens, `,
    );
    expect(stdout).toMatch(/^ {2}iteration {2}\d+s with the full batch$/m);
    expect(stdout).toMatch(/^ {2}time {7}\d+h \d\dm, evaluation and checkpoints not counted$/m);
  });

  it('refuses what the training run would refuse', async () => {
    const argv = ['plan', '--', ...large, '--tensor-model-parallel-size', '2'];
    const { status, stderr } = await spawnMtl(argv, { cwd });
    expect(status).toBe(2);
    expect(stderr).toContain('error[MTL_WORLD_SIZE]');
  });
});
