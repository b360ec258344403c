import { describe, expect, it } from 'vitest';
import { runMtlHere } from './support/run-mtl-here.js';

const model = ['--', '--preset', 'megatron-8.3b', '--bf16', '--global-batch-size', '512'];
const onGpus = ['plan', '--profile', 'a100-80gb-megatron', '--num-processes', '64'];

/** The subject of a report, its command line, and the words that it must explain. */
const reports: ReadonlyArray<
  readonly [what: string, argv: readonly string[], explains: readonly (string | RegExp)[]]
> = [
  [
    'a long schedule',
    ['schedule', '--pipeline-schedule', '1f1b', '--stages', '8', '--micro-batches', '32'],
    [
      'F forward, B backward, . idle\n0, 1, 2 ... the micro-batch\n',
      'times (step, busy, idle) in the unit of --forward-time',
      'peak: most micro-batches whose activations a rank keeps at once\n',
    ],
  ],
  [
    'a schedule of chunks and halves',
    [
      ...['schedule', '--pipeline-schedule', 'zb-v', '--stages', '4', '--micro-batches', '16'],
      ...['--kept-until-weight', '0.5', '--optimizer-time', '1'],
    ],
    [
      'F forward, I input half of backward, W weight half of backward, opt optimizer, . idle\n',
      '0, 1, 2 ... the micro-batch; a, b ... the chunk of the rank\n',
      'until I, until W: ',
    ],
  ],
  [
    'a plan',
    [...onGpus, ...model, '--tensor-model-parallel-size', '2', '--pipeline-model-parallel-size', '4'],
    [/^memory: of the fullest rank/m, /^utilisation: model FLOPs by the peak/m, /^exposed: .*bubble: /m],
  ],
  [
    'a plan that does not fit',
    [...onGpus, '--memory', '4GiB', ...model, '--tensor-model-parallel-size', '2'],
    [/^ {2}remedy: try --search.+\n {4}\S/m],
  ],
  [
    'a search',
    [...onGpus, '--search', ...model],
    [/^each layout: time of a step, model FLOPs per second, memory of the fullest rank/m, / \\\n {5}--/],
  ],
];

describe('a report in a file or a pipe', () => {
  it.each(reports)('of %s fits 100 columns and explains its words', async (_, argv, explains) => {
    const { status, stdout, stderr } = await runMtlHere(...argv);
    expect({ status, stderr: stderr.replaceAll(/[^\n]*\r/g, '') }).toMatchObject({ status: 0 });
    expect(stdout.split('\n').filter((line) => line.length > 100)).toEqual([]);
    for (const text of explains) expect(stdout).toMatch(text);
  });
});
