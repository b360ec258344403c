/**
 * The two sizes of each model: hidden size, layers, heads, sequence length, micro-batch size. The global
 * batch size of both is 8.
 */
const sizes = {
  small: { hidden: 160, layers: 4, heads: 4, sequence: 128, microBatch: 2 },
  medium: { hidden: 320, layers: 4, heads: 8, sequence: 192, microBatch: 2 },
};

const tensor = ['--tensor-model-parallel-size', '2'];
const pipeline = (schedule) => ['--pipeline-model-parallel-size', '2', '--pipeline-schedule', schedule];
const chunks = ['--num-virtual-stages-per-pipeline-rank', '2'];

/** The runs to predict and measure. A calibration times none of their shapes. */
const layouts = [
  ['gpt', 'small', 1, 'one process', []],
  ['gpt', 'medium', 1, 'one process', []],
  ['gpt', 'small', 2, 'tp 2', tensor],
  ['gpt', 'medium', 2, 'tp 2, sequence parallel', [...tensor, '--sequence-parallel']],
  ['gpt', 'small', 2, 'pp 2, gpipe', pipeline('gpipe')],
  ['gpt', 'small', 2, 'pp 2, 1f1b', pipeline('1f1b')],
  ['gpt', 'medium', 2, 'pp 2, 1f1b', pipeline('1f1b')],
  ['gpt', 'small', 2, 'pp 2, interleaved', [...pipeline('interleaved'), ...chunks]],
  ['gpt', 'small', 2, 'pp 2, breadth-first', [...pipeline('breadth-first'), ...chunks]],
  ['gpt', 'small', 2, 'pp 2, zb-h1', pipeline('zb-h1')],
  ['gpt', 'small', 2, 'pp 2, zb-h2', pipeline('zb-h2')],
  ['gpt', 'medium', 2, 'pp 2, zb-v', [...pipeline('zb-v'), ...chunks]],
  ['gpt', 'small', 2, 'dp 2', []],
  ['gpt', 'medium', 2, 'dp 2, distributed optimizer', ['--use-distributed-optimizer']],
  ['bert', 'small', 1, 'one process', []],
  ['bert', 'medium', 2, 'tp 2', tensor],
  ['bert', 'small', 2, 'pp 2, 1f1b', pipeline('1f1b')],
  ['bert', 'medium', 2, 'dp 2', []],
];

/** The runs, with names, numbers of processes and flags. A BERT's samples nearly fill their sequences. */
export const trainingRuns = layouts.map(([model, size, numProcesses, layout, flags]) => ({
  name: `${model} ${size}, ${layout}`,
  model,
  numProcesses,
  flags: [...listFlags(sizes[size]), ...(model === 'bert' ? ['--short-seq-prob', '0'] : []), ...flags],
}));

function listFlags({ hidden, layers, heads, sequence, microBatch }) {
  return [
    ...['--preset', 'none', '--num-layers', `${layers}`, '--hidden-size', `${hidden}`],
    ...['--num-attention-heads', `${heads}`, '--seq-length', `${sequence}`],
    ...['--max-position-embeddings', `${sequence}`, '--micro-batch-size', `${microBatch}`],
    ...['--global-batch-size', '8', '--lr', '1e-4', '--data-path', 'bundled'],
    ...['--train-iters', '1000', '--eval-iters', '0', '--log-interval', '1000'],
  ];
}
