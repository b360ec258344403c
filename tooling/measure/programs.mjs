import { readFileSync } from 'node:fs';

// The programs that measure, or compare with papers and other programs: `npm run dev -- NAME`.

const measure = 'tooling/measure';
/**
 * The command for programs that are written in TypeScript or import sources of packages. It needs no build.
 */
const onSources = 'node --conditions=@mtl/source --import ./tooling/vitest/typescript-loader.mjs';

/**
 * The programs by name: the description for the list, the path, and how to run the program. `target`: a
 * native program that the program needs. `npm run bench` runs the programs with `inBench`, one after the
 * other. The comment at the top of a program describes its flags.
 */
export const programs = {
  'step-against-pytorch': {
    about: 'Times training steps of GPT against PyTorch.',
    file: 'gpt-train/compare-with-pytorch.mjs',
    inBench: true,
  },
  'parallel-steps': {
    about: 'Times steps of several ranks against one process.',
    file: 'gpt-train/parallel-step.mjs',
    inBench: true,
  },
  'weak-scaling': {
    about: 'Times steps whose work grows with the ranks.',
    file: 'gpt-train/weak-scaling.mjs',
    inBench: true,
  },
  'training-step': { about: 'Times one training step, with its parts.', file: 'gpt-train/train-step.mjs' },
  'generation-rate': {
    about: 'Times tokens of generation against the rate of memory.',
    file: 'gpt-train/generation-rate.mjs',
    isOnSources: true,
  },
  'sharded-training': {
    about: 'Trains a GPT of 1.3 B parameters on four ranks that share all states.',
    file: 'gpt-train/sharded-training.mjs',
  },
  'long-sequence': {
    about: 'Times context parallelism on one sequence.',
    file: 'gpt-train/long-sequence.mjs',
  },
  'threads-of-small-models': {
    about: 'Times small models on one thread and on several.',
    file: 'gpt-train/threads-of-small-models.mjs',
  },
  'preset-study': {
    about: 'Runs the study of docs/studies/default-presets.md.',
    file: 'gpt-train/default-presets.mjs',
  },
  'sampling-study': {
    about: 'Scores settings of sampling, for the same study.',
    file: 'gpt-train/sampling-settings.mjs',
  },
  'export-logits': {
    about: 'Writes logits of a model for Hugging Face’s to match.',
    file: 'gpt-train/export-logits.mjs',
  },
  'layer-norm-study': {
    about: 'Runs the study of docs/studies/layer-norm-placement.md.',
    file: 'bert-train/layer-norm.mjs',
  },
  'pretrained-against-scratch': {
    about: 'Compares fine-tuning with training from scratch.',
    file: 'bert-train/pretrained-against-scratch.mjs',
  },
  'bert-against-transformers': {
    about: 'Times steps of BERT against transformers.',
    file: 'runs/bert-against-transformers.mjs',
    inBench: true,
  },
  'bert-batches': { about: 'Times the batches of BERT in training.', file: 'runs/bert-batches.mjs' },
  'llama-against-transformers': {
    about: 'Times steps of Llama models against transformers.',
    file: 'runs/llama-against-transformers.mjs',
  },
  'experts-against-dense': {
    about: 'Times a mixture of experts against a dense model.',
    file: 'runs/experts-against-dense.mjs',
  },
  'webassembly-steps': {
    about: 'Times steps on WebAssembly against the same sources compiled natively.',
    file: 'runs/webassembly-steps.mjs',
  },
  'residual-and-norm': {
    about: 'Times residual and norm as one operation and as two.',
    file: 'runs/residual-and-norm.mjs',
  },
  'host-time': { about: 'Times the host’s part of a step on device cuda.', file: 'runs/cuda/host-time.mjs' },
  operations: {
    about: 'Times every operation against a copy and oneDNN.',
    command: `vitest run --root ${measure} --config ${measure}/kernels/vitest.config.mjs --disable-console-intercept`,
    inBench: true,
  },
  matmuls: {
    about: 'Times the matmuls of a step by our kernels and oneDNN.',
    file: 'kernels/matmuls.mjs',
    target: 'time_matmuls',
  },
  'grouped-matmuls': { about: 'Times the matmuls of experts.', file: 'kernels/grouped-matmuls.mjs' },
  attention: {
    about: 'Times attention against a matmul and PyTorch.',
    file: 'kernels/attention.mjs',
  },
  'document-attention': {
    about: 'Times attention over documents in a row.',
    file: 'kernels/document-attention.mjs',
  },
  collectives: {
    about: 'Times the collectives of each engine.',
    file: 'comm/run-benchmarks.ts',
    inBench: true,
  },
  'save-and-load': {
    about: 'Times checkpoints against one plain file.',
    file: 'checkpoint/save-and-load.mjs',
    inBench: true,
  },
  'gguf-memory': {
    about: 'Measures the memory of mtl convert to GGUF, at 8 B parameters.',
    file: 'formats/gguf-memory.mjs',
  },
  'data-throughput': {
    about: 'Times corpora, tokenizers, datasets and loaders.',
    file: 'data/data-throughput.mjs',
    isOnSources: true,
    inBench: true,
  },
  'bert-samples': {
    about: 'Times the samples of BERT.',
    file: 'data/bert-samples.mjs',
    isOnSources: true,
    inBench: true,
  },
  'run-index': {
    about: 'Times what the dashboard keeps of a long run.',
    file: 'dashboard/run-index.ts',
    inBench: true,
  },
  'head-costs': {
    about: 'Times embedding and head in units of a layer.',
    file: 'models/embedding-and-head-cost.ts',
    inBench: true,
  },
  bubbles: {
    about: 'Measures bubbles of four ranks against the simulator’s.',
    file: 'pipeline/measure-bubbles.ts',
    inBench: true,
  },
  'rank-watch': {
    about: 'Times the watch of slow ranks.',
    file: 'trainer/rank-watch.ts',
    inBench: true,
  },
  'papers-steps': {
    about: 'Predicts the steps that papers measured, with errors.',
    file: 'cost-model/print-validation.ts',
  },
  'papers-fit': {
    about: 'Fits the constants of the cost model to some of the published step times.',
    file: 'cost-model/fit-constants.ts',
  },
  'papers-layouts': {
    about: 'Searches the layouts that papers chose.',
    file: 'planning/print-searches.ts',
  },
  'plan-against-runs': {
    about: 'Compares the predictions of mtl plan with training runs here.',
    file: 'plan-against-runs/plan-against-runs.mjs',
  },
};

/** Returns the command that runs a program in the root of the checkout. */
export function formatCommand({ command, file, isOnSources }) {
  if (command !== undefined) return command;
  return `${isOnSources || file.endsWith('.ts') ? onSources : 'node'} ${measure}/${file}`;
}

/** Returns a program's help text, which is the comment at the top of its file. */
export function readHelp({ file = 'kernels/run-op-benchmarks.ts' }) {
  const lines = readFileSync(new URL(file, import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => line[1] !== '!');
  const end = lines.findIndex((line) => !/^\s*(\/\*\*|\*|\/\/)/.test(line));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^\s*(\/\*\*|\*\/|\* ?|\/\/ ?)/, ''))
    .join('\n')
    .trim();
}
