import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { runMtlHere } from './support/run-mtl-here.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
beforeAll(() => {
  // a machine that was not calibrated
  vi.stubEnv('XDG_CONFIG_HOME', directory.path);
  vi.stubEnv('MTL_PROFILE', undefined);
});
afterAll(() => {
  vi.unstubAllEnvs();
  directory.dispose();
});

const model = '--load (or --load-hf)';
const ofRun = '--hidden-size, --num-attention-heads, --seq-length, --max-position-embeddings';

/** A command line, and the names that its error lists. */
const cases: ReadonlyArray<readonly [argv: string, missing: string]> = [
  ['data prepare', '--input, --output-prefix and --tokenizer-type are missing'],
  ['data prepare --input a', '--output-prefix and --tokenizer-type are missing'],
  ['data merge', '--input and --output-prefix are missing'],
  ['data train-tokenizer', '--type, --vocab-size, --input and --output are missing'],
  ['data inspect', 'PREFIX is missing'],
  ['data verify', 'PREFIX is missing'],
  [
    'data build-index',
    '--data-path, --seq-length, --micro-batch-size, --train-iters (or --train-samples) and --tokenizer-type are missing',
  ],
  ['data build-index --preset default', '--data-path and --tokenizer-type are missing'],
  ['eval', `${model} is missing`],
  ['eval --load-hf a', '--text (or --data-path) is missing'],
  ['eval --task lambada', `${model} and --valid-data are missing`],
  ['generate', '--load (or --load-hf, or the directory alone) is missing'],
  ['chat', '--load (or --load-hf, or the directory alone) is missing'],
  ['checkpoint inspect', 'DIRECTORY is missing'],
  ['checkpoint verify', 'DIRECTORY is missing'],
  ['runs diff', 'A and B are missing'],
  ['runs diff one', 'B is missing'],
  ['runs remove', 'RUN is missing'],
  ['runs send', 'RUN is missing'],
  ['run --nnodes 2', 'PROGRAM and --master-addr are missing'],
  ['schedule', '--pipeline-schedule (or --compare), --stages and --micro-batches are missing'],
  ['schedule --pipeline-schedule 1f1b', '--stages and --micro-batches are missing'],
  [
    'finetune',
    '--task, --data-dir (or --train-data and --valid-data) and ' +
      '--load (or --load-hf, or --num-layers, --hidden-size and --num-attention-heads) are missing',
  ],
  [
    'finetune --task qqp --train-data a --num-layers 1',
    '--valid-data, --hidden-size, --num-attention-heads and --tokenizer-type are missing',
  ],
  [
    'plan --num-processes 2 -- --num-layers 2',
    `--profile (or mtl calibrate), ${ofRun} and --micro-batch-size are missing`,
  ],
  [
    'plan --search -- --num-layers 2',
    '--profile (or mtl calibrate), --global-batch-size, --hidden-size, --num-attention-heads, --seq-length and ' +
      '--max-position-embeddings are missing',
  ],
  ['convert --from megatron', 'missing DIRECTORY and --save DIR'],
  [
    'convert --load-hf a',
    'missing --save DIR; or --save-hf DIR and --load-lora DIR; or --to gguf and FILE; or --to onnx and DIRECTORY; or --to page and DIRECTORY; or --to gguf-lora, FILE and --load-lora DIR',
  ],
];

describe('a command line that lacks several words', () => {
  it.each(cases)('mtl %s: one error names all', async (argv, missing) => {
    const { status, stdout, stderr } = await runMtlHere(...argv.split(' '));
    expect(stderr).toContain(missing);
    expect(stderr).toMatch(/^error\[MTL_(FLAG_REQUIRED|ARGUMENT_MISSING)\]: /);
    expect(stderr.match(/error\[/g)).toHaveLength(1);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  });

  it('gets the words that are missing as they are typed', async () => {
    const { stderr } = await runMtlHere('data', 'train-tokenizer', '--input', 'a');
    expect(stderr).toContain(
      'expected mtl data train-tokenizer --type bpe|wordpiece --vocab-size N --output FILE\n' +
        '  remedy: pass them; mtl data train-tokenizer --help describes all flags',
    );
  });

  it('that contradicts itself is refused for that, since adding words would not help', async () => {
    for (const argv of [
      ['eval', '--text', 'a', '--data-path', 'b'],
      ['generate', '--prompt', 'a', '--prompt-file', 'b'],
      ['finetune', '--task', 'qqp', '--squad-version', '2.0'],
      ['finetune', '--load', 'a', '--num-layers', '2'],
      ['schedule', '--chunks', '2', '--num-virtual-stages-per-pipeline-rank', '3'],
      ['convert', '--load', 'a', '--save', 'b'],
    ]) {
      expect((await runMtlHere(...argv)).stderr).toContain('error[MTL_FLAG_CONFLICT]');
    }
  });

  it('that is asked for help gives help', async () => {
    const { status, stdout } = await runMtlHere('data', 'prepare', '--help');
    expect(status).toBe(0);
    expect(stdout).toMatch(/^Usage: mtl data prepare/);
  });
});
