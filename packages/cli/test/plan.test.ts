import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hostInformation } from '@mtl/kernels';
import { afterAll, describe, expect, it } from 'vitest';
import { runMtlIn } from './support/run-mtl-in.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const cwd = tmpdir();
const directory = temporaryDirectory();
afterAll(() => directory.dispose());
const onH100 = ['plan', '--profile', 'h100-80gb'];
/** GPT-3 of Korthikanti et al. 2022, table 5, on 64 A100. */
const gpt3 = [
  ...['--preset', 'none', '--num-layers', '96', '--hidden-size', '12288', '--num-attention-heads', '96'],
  ...['--seq-length', '2048', '--max-position-embeddings', '2048', '--bf16', '--micro-batch-size', '1'],
  ...['--tokenizer-type', 'NullTokenizer', '--vocab-size', '51199', '--global-batch-size', '64'],
  ...['--tensor-model-parallel-size', '8', '--pipeline-model-parallel-size', '8'],
  ...['--num-virtual-stages-per-pipeline-rank', '3', '--sequence-parallel'],
];
interface Json {
  readonly iterationSeconds: number;
  readonly teraflopsPerGpu: number;
  readonly fits: boolean;
  readonly ranks: readonly {
    readonly ranks: readonly number[];
    readonly memoryBytes: number;
    readonly memoryByKind: Readonly<Record<string, number>>;
  }[];
  readonly breakdown: Readonly<Record<string, number>>;
  readonly trainingSeconds?: number;
}

async function json(argv: readonly string[]): Promise<Json> {
  const { status, stdout, stderr } = await runMtlIn(argv, { cwd });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return JSON.parse(stdout) as Json;
}

describe('mtl plan', () => {
  it('predicts memory and time of a run that is recorded', async () => {
    const flags = ['--preset', 'gpt2-124m', '--bf16', '--train-iters', '100'];
    const plan = await json([...onH100, '--json', '--', ...flags]);
    // 50,257 tokens padded to 50,304, 1,024 positions, 12 layers of 768 (Radford et al. 2019), in bfloat16
    const [{ ranks, memoryByKind, memoryBytes }] = plan.ranks as [Json['ranks'][number]];
    expect(ranks).toEqual([0]);
    expect(memoryByKind.parameters! / (2 * 124_475_904)).toBeCloseTo(1, 2);
    expect(memoryByKind.optimizer! / (12 * 124_475_904)).toBeCloseTo(1, 2);
    expect(memoryBytes).toBe(Object.values(memoryByKind).reduce((sum, bytes) => sum + bytes, 0));
    expect(plan.fits).toBe(true);
    const parts = Object.values(plan.breakdown).reduce((sum, part) => sum + part, 0);
    expect(parts / plan.iterationSeconds).toBeCloseTo(1, 9);
    expect(plan.trainingSeconds).toBeCloseTo(100 * plan.iterationSeconds, 9);
    expect(plan.teraflopsPerGpu).toBeLessThan(989);
  });

  it('predicts a BERT, and refuses it where there is no list', async () => {
    const flags = ['--preset', 'bert-base', '--micro-batch-size', '8', '--threads', '1'];
    const { ranks } = await json([...onH100, '--json', '--model', 'bert', '--', ...flags]);
    // 12 layers of 768; vocabulary of the bundled corpus: 4,096 tokens; 512 positions, two types;
    // the norm after the layers; pooler, two dense layers, a norm, biases
    const heads = 768 * 768 + 768 + 2 * 768 + 4096 + (768 * 768 + 768 + 2 * 768 + 2);
    const embeddings = (4096 + 512 + 2) * 768;
    const numParameters = 12 * (12 * 768 * 768 + 13 * 768) + embeddings + 2 * 768 + heads;
    expect(ranks[0]!.memoryByKind.parameters! / (4 * numParameters)).toBeCloseTo(1, 2);
    const listed = ['plan', '--profile', 'a100-80gb-megatron', '--model', 'bert', '--', ...flags];
    const { status, stderr } = await runMtlIn(listed, { cwd });
    expect(status).toBe(2);
    expect(stderr).toContain('error[MTL_PROFILE]: a100-80gb-megatron: a bert is planned');
  });

  it('prints what ranks send for sharded states in a step', async () => {
    const flags = ['--preset', 'gpt2-4m', '--global-batch-size', '16', '--train-iters', '10'];
    const printOn = async (numProcesses: number, ...more: string[]): Promise<string> => {
      const machine = ['--num-processes', String(numProcesses)];
      return (await runMtlIn([...onH100, ...machine, '--', ...flags, ...more], { cwd })).stdout;
    };
    const print = (...more: string[]): Promise<string> => printOn(2, ...more);
    expect(await print('--use-megatron-fsdp')).toMatch(
      /^ {2}sharded states +each rank sends \d+\.\d MiB to gather, \d+\.\d MiB to reduce$/m,
    );
    expect(await print('--use-distributed-optimizer')).not.toContain('sharded states');
    const instances = ['--use-distributed-optimizer', '--num-distributed-optimizer-instances', '2'];
    const hybrid = await printOn(4, ...instances, '--micro-batch-size', '4');
    expect(hybrid).toMatch(/^ {2}sharded states .* to reduce, \d+\.\d MiB\s+between instances$/m);
    expect(hybrid).toMatch(/^tensor 1 x pipeline 1 x data 4, states in 2 instances,/m);
  });

  it('prints a short table of a run on 64 GPUs, and writes the step', async () => {
    const [svg, trace] = [join(directory.path, 'step.svg'), join(directory.path, 'step.json')];
    const files = ['--svg', svg, '--chrome-trace', trace];
    const machine = ['--profile', 'a100-80gb-megatron', '--num-processes', '64', '--memory', '100GiB'];
    const { status, stdout, stderr } = await runMtlIn(['plan', ...machine, ...files, '--', ...gpt3], { cwd });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(
      /^174\.6 B parameters on 64 x a100-80gb-megatron \(fitted\)\ntensor 8 x pipeline 8 x data 1, schedule interleaved, 64 micro-batches of 1$/m,
    );
    expect(stdout).toMatch(/^ {2}memory +fits into 100\.0 GiB: at most 8\d\.\d GiB$/m);
    expect(stdout).toMatch(/^ {4}stages 1 to 6 +\d\d\.\d GiB to \d\d\.\d GiB$/m);
    expect(stdout).toMatch(/^ {2}step +13\.\d\d s, 1\d\d\.\d TFLOP\/s per GPU$/m);
    expect(stdout).toMatch(
      /^ {2}utilisation +5\d\.\d % with attention in full, 5\d\.\d % with its causal half$/m,
    );
    expect(stdout).toMatch(/^ {4}bubble +\d+ ms, 5\.\d %$/m);
    expect(stdout).not.toContain('training');
    expect(stdout.split('\n').length).toBeLessThan(25);
    expect(readFileSync(svg, 'utf8')).toMatch(/^<svg /);
    const { traceEvents } = JSON.parse(readFileSync(trace, 'utf8')) as { traceEvents: { ph: string }[] };
    // forward and backward of 24 chunks and 64 micro-batches, and an optimizer on every stage
    expect(traceEvents.filter(({ ph }) => ph === 'X')).toHaveLength(2 * 24 * 64 + 8);
  });

  it('predicts the largest preset on 1,024 GPUs without its tokenizer or data', {
    tags: ['whole'],
  }, async () => {
    const layout = ['--tensor-model-parallel-size', '8', '--pipeline-model-parallel-size', '16'];
    const flags = ['--preset', 'llama3-405b', '--bf16', ...layout, '--sequence-parallel'];
    const words = ['plan', '--profile', 'h100-80gb', '--num-processes', '1024', '--', ...flags];
    const { status, stdout, stderr } = await runMtlIn([...words, '--use-distributed-optimizer'], { cwd });
    if (hostInformation().isWebAssembly) {
      expect(status).toBe(2);
      const refusal =
        'error[MTL_OUT_OF_MEMORY]: rank 0, with 3,052,109,824 parameters, takes more than the 4 GiB';
      expect(stderr).toContain(refusal);
      expect(stderr).toContain('remedy: plan with native kernels');
      return;
    }
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(
      /^405\.9 B parameters on 1024 x h100-80gb \(predicted\)\ntensor 8 x pipeline 16 x data 8, schedule 1f1b, 256 micro-batches of 1$/m,
    );
  });

  it('says where a flag of its own belongs that stands among the flags of the training run', async () => {
    const { status, stderr } = await runMtlIn([...onH100, '--', '--svg', 'step.svg'], { cwd });
    expect(status).toBe(2);
    expect(stderr).toContain(
      'error[MTL_FLAG_ARGUMENT]: --svg is a flag of mtl plan, not of the training run',
    );
    expect(stderr).not.toContain('--save');
  });

  it('searches layouts, with the reason why each loses and the command line', async () => {
    const model = gpt3.slice(0, gpt3.indexOf('--tensor-model-parallel-size'));
    const flags = model.filter((flag, index) => {
      return flag !== '--micro-batch-size' && model[index - 1] !== '--micro-batch-size';
    });
    const machine = ['--profile', 'a100-80gb-megatron', '--num-processes', '64'];
    const { status, stdout, stderr } = await runMtlIn(['plan', '--search', ...machine, '--', ...flags], {
      cwd,
    });
    // a search that takes long says how far it is
    const problems = stderr.replaceAll(/^(estimating layouts|planning whole): .*\n/gm, '');
    expect({ status, problems }).toEqual({ status: 0, problems: '' });
    // a shell reads lines that end in a backslash as one
    const joined = stdout.replaceAll(/ \\\n */g, ' ');
    expect(stdout).toMatch(/^\d{4} layouts, of which \d+ should fit; the fastest of each kind:$/m);
    expect(stdout).toMatch(
      /^1\. tensor 8 x pipeline 8 x data 1, interleaved with \d chunks, micro-batch \d,/m,
    );
    expect(stdout).toMatch(/^2\. (?:.+\n {3})+13\.\d\d s, .+\n {3}\d+ ms slower \(\d\.\d %\): .+ \+\d+ ms/m);
    expect(stdout).toMatch(
      /^predicted, not measured: steps that papers published, [^:]+ 22 % at most\s\(81 steps\)$/m,
    );
    // the common flags are printed once, then the flags that each layout adds
    const start = '   mtl run --nnodes 8 --node-rank 0 --master-addr HOST --nproc-per-node 8 gpt-train -- ';
    const [common, ...rest] = joined.split('\n').filter((line) => line.startsWith(start));
    expect(common).toBe(`${start}${flags.join(' ')} --sequence-parallel --device cuda`);
    expect(rest).toEqual([]);
    const own = joined.split('\n').filter((line) => line.startsWith('   ... --'));
    expect(own).toHaveLength(5);
    expect(stdout).toMatch(/^add --lr, --data-path, --train-iters: /m);
    expect(own[0]).toMatch(/^ {3}\.\.\. --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 /);
    expect(own.join('')).not.toContain('--sequence-parallel');
  });

  it('ends with status 1 under --check where the run does not fit', async () => {
    const run = ['--', '--preset', 'gpt2-124m', '--bf16', '--micro-batch-size', '1'];
    const status = async (...options: string[]) =>
      (await runMtlIn([...onH100, ...options, ...run], { cwd })).status;
    expect(await status('--check')).toBe(0);
    expect(await status('--memory', '1GiB')).toBe(0);
    const before = process.exitCode;
    expect(await status('--check', '--memory', '1GiB')).toBe(1);
    // the exit code of the program which runs the command
    expect(process.exitCode).toBe(before);
    const machine = [
      'plan',
      '--search',
      '--profile',
      'a100-80gb-megatron',
      '--num-processes',
      '4',
      '--memory',
      '1MiB',
    ];
    const search = async (...check: string[]) => {
      const layout = ['--pipeline-model-parallel-size', '1', '--tensor-model-parallel-size', '4'];
      return await runMtlIn([...machine, ...check, ...run, ...layout, '--global-batch-size', '8'], { cwd });
    };
    const { status: checked, stderr } = await search('--check');
    expect(stderr).toContain('error[MTL_PLAN_LAYOUT]: no layout of 4 processes fits into 1.0 MiB');
    expect(checked).toBe(1);
    expect((await search()).status).toBe(2);
  });

  it('prints which flags have no effect', async () => {
    const flags = ['--preset', 'gpt2-124m', '--use-flash-attn', '--sequence-parallel'];
    const { status, stdout } = await runMtlIn([...onH100, '--', ...flags], { cwd });
    expect(status).toBe(0);
    expect(stdout).toMatch(
      /^note: 2 flags have no effect: --use-flash-attn \(attention .+\); --sequence-parallel \(with .+\)$/m,
    );
    expect(stdout.match(/^note:/gm)).toHaveLength(1);
    const { stdout: all } = await runMtlIn([...onH100, '--', ...flags, '--verbose'], { cwd });
    expect(all.match(/^note:/gm)).toHaveLength(2);
  });

  it.each([
    [
      ['--profile', 'h100-80g'],
      [],
      /MTL_PROFILE_NAME.*unknown profile h100-80g[\s\S]*did you mean h100-80gb\?/,
    ],
    [[], [], /MTL_PROFILE_NAME.*this machine has no profile[\s\S]*one of a100-80gb-megatron, /],
    [['--profile', 'nowhere.json'], [], /MTL_PROFILE.*nowhere\.json/],
    [['--tflops', '30'], [], /MTL_FLAG_VALUE.*--tflops 30[\s\S]*pass --profile/],
    [
      ['--profile', 'h100-80gb', '--memory', '80'],
      [],
      /MTL_FLAG_VALUE.*--memory 80[\s\S]*pass --memory 80GiB/,
    ],
    [['--profile', 'h100-80gb'], ['--tensor-model-parallel-size', '2'], /MTL_WORLD_SIZE/],
  ])('refuses %j -- %j', async (options, flags, message) => {
    const argv = ['plan', ...options, '--', '--preset', 'gpt2-124m', ...flags];
    const { status, stderr } = await runMtlIn(argv, { cwd, env: { XDG_CONFIG_HOME: '/nonexistent' } });
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
  });
});
