#!/usr/bin/env node
/**
 * Compares the training step of bert-base (110 M parameters, including AdamW and clipping) with transformers'
 * BertForPreTraining. Both sides have the same weights and the same batches of the default corpus, including
 * padding. Losses are compared before anything is timed. Then both sides take turns, each with its best
 * micro-batch size, and medians are printed. The exit status is 1 if a goal is missed. Without transformers,
 * only our side is timed.
 *   npm run dev -- bert-against-transformers [--dtypes float32,bfloat16] [--lengths 128,512]
 *     [--dropout 0,0.1] [--threads 2] [--rounds 5] [--by wall|cpu] [--samples N] [--micro-batches N,M]
 *     [--profile] [--corpus TEXT] [--log FILE]
 * The memory peaks are printed at the end. They are meaningful only for a single configuration with a single
 * micro-batch size. `--by cpu` compares processor time instead of elapsed time, for a machine that is shared
 * with other users. MTL_PEER_PYTHON names a Python with torch and transformers (default python3).
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { hostInformation, setNumThreads } from '@mtl/kernels';
import { openBertSamples, readBatch } from './bert-batches.mjs';
import { BertSide, operationSeconds } from './bert-side.mjs';
import { PeerProcess } from './peer-process.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const build = join(here, '..', 'build', 'bench');
const { values } = parseArgs({
  options: {
    dtypes: { type: 'string', default: 'float32,bfloat16' },
    lengths: { type: 'string', default: '128,512' },
    dropout: { type: 'string', default: '0,0.1' },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '5' },
    by: { type: 'string', default: 'wall' },
    samples: { type: 'string' },
    'micro-batches': { type: 'string' },
    profile: { type: 'boolean', default: false },
    corpus: { type: 'string' },
    log: { type: 'string', default: join(build, 'bert.jsonl') },
  },
});
const goals = { float32: 1.2, bfloat16: 1.4 };
/** The number of samples in a step, and the micro-batch sizes to try for each side, by sequence length. */
const plans = {
  128: { samples: 16, microBatches: [4, 8, 16] },
  512: { samples: 4, microBatches: [1, 2, 4] },
};
/** The bounds for the relative difference of the two sides' losses and gradient norms, by precision. */
const bounds = { float32: { loss: 1e-5, norm: 1e-4 }, bfloat16: { loss: 2e-3, norm: 2e-2 } };
const threads = Number(values.threads);

/**
 * Returns a batch in the form that the `transformers` library expects: sample after sample, truncated to the
 * length of the longest sample.
 */
function forPeer({
  batchSize,
  tokens,
  tokenTypes,
  lengths,
  maskedPositions,
  maskedLabels,
  numMasked,
  ...rest
}) {
  const length = Math.max(...lengths);
  const rows = (value) =>
    Array.from({ length: batchSize }, (_, row) => Array.from({ length }, (_, at) => value(at, row)));
  return {
    tokens: rows((at, row) => tokens[at * batchSize + row]),
    types: rows((at, row) => tokenTypes[at * batchSize + row]),
    mask: rows((at, row) => (at < lengths[row] ? 1 : 0)),
    maskedPositions: Array.from(maskedPositions.subarray(0, numMasked), (flat) => {
      return (flat % batchSize) * length + Math.floor(flat / batchSize);
    }),
    maskedLabels: [...maskedLabels.subarray(0, numMasked)],
    order: [...rest.sentenceOrderLabels],
  };
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const readTime = (result) => result[values.by];

/** Returns a function that reads the micro-batches of a step, in the forms of both sides. */
function makeStepReader(dataset, { samples }) {
  return (step, microBatch) => {
    const batches = Array.from({ length: samples / microBatch }, (_, index) =>
      readBatch(dataset, { start: step * samples + index * microBatch, batchSize: microBatch }),
    );
    return { batches, peerBatches: batches.map(forPeer) };
  };
}

async function checkLosses({ peer, dtype, sequenceLength, directory, readStep, microBatch }) {
  const side = new BertSide({ dtype, sequenceLength, dropout: 0 });
  await peer.ask({ do: 'build', directory, dtype, threads, dropout: 0 });
  for (let step = 0; step < 2; step++) {
    const { batches, peerBatches } = readStep(step, microBatch);
    const [ours, theirs] = [side.step(batches), await peer.ask({ do: 'step', batches: peerBatches })];
    for (const key of ['loss', 'norm']) {
      const difference = Math.abs(ours[key] / theirs[key] - 1);
      if (!(difference <= bounds[dtype][key])) {
        throw new Error(
          `${dtype} S ${sequenceLength} step ${step}: ${key} ${ours[key]} here and ${theirs[key]} there, ` +
            `a relative difference of ${difference.toExponential(1)}, at most ${bounds[dtype][key]} expected`,
        );
      }
    }
  }
  side.dispose();
}

/** Returns the micro-batch with the shortest step. */
async function bestMicroBatch(microBatches, run) {
  if (microBatches.length === 1) return (await run(microBatches[0])) && microBatches[0];
  const times = [];
  for (const microBatch of microBatches) {
    await run(microBatch); // shapes are new
    times.push(Math.min(readTime(await run(microBatch)), readTime(await run(microBatch))));
  }
  return microBatches[times.indexOf(Math.min(...times))];
}

function printProfile(before, steps) {
  const rows = operationSeconds(before);
  const total = rows.reduce((sum, { seconds }) => sum + seconds, 0);
  for (const { name, calls, seconds } of rows.slice(0, 14)) {
    const share = `${((100 * seconds) / total).toFixed(1).padStart(5)} %`;
    console.log(
      `    ${name.padEnd(32)} ${String(calls / steps).padStart(6)} calls ${((1000 * seconds) / steps).toFixed(1).padStart(9)} ms ${share}`,
    );
  }
}

async function compare({ peer, dtype, sequenceLength, dropout, directory, readStep, plan }) {
  const side = new BertSide({ dtype, sequenceLength, dropout });
  await peer?.ask({ do: 'build', directory, dtype, threads, dropout });
  let step = 0;
  const ours = (microBatch) => side.step(readStep(step++, microBatch).batches);
  const theirs = (microBatch, what = 'step') =>
    peer.ask({ do: what, batches: readStep(step, microBatch).peerBatches });
  const best = {
    ours: await bestMicroBatch(plan.microBatches, ours),
    theirs: peer && (await bestMicroBatch(plan.microBatches, theirs)),
  };
  const runs = { ours: [], theirs: [] };
  const before = new Map(operationSeconds().map((row) => [row.name, row]));
  for (let round = 0; round < Number(values.rounds); round++) {
    if (peer) runs.theirs.push(await theirs(best.theirs));
    runs.ours.push(ours(best.ours));
  }
  if (values.profile) {
    printProfile(before, runs.ours.length);
    if (peer) await theirs(best.theirs, 'profile');
  }
  side.dispose();
  const of = (name, key) => median(runs[name].map((run) => run[key]));
  const ratio = peer ? of('theirs', values.by) / of('ours', values.by) : undefined;
  return {
    dtype,
    sequenceLength,
    dropout,
    threads,
    samples: plan.samples,
    microBatch: best,
    wall: { ours: of('ours', 'wall'), theirs: of('theirs', 'wall') },
    cpu: { ours: of('ours', 'cpu'), theirs: of('theirs', 'cpu') },
    by: values.by,
    ratio,
    goal: goals[dtype],
    isMissed: peer !== undefined && !(ratio >= goals[dtype]),
  };
}

const columns = [
  ['S', ({ sequenceLength }) => sequenceLength],
  ['dtype', ({ dtype }) => dtype],
  ['dropout', ({ dropout }) => dropout],
  ['micro-batches', ({ microBatch }) => `${microBatch.ours}, ${microBatch.theirs ?? '-'}`],
  ['clock, s', ({ wall }) => `${wall.ours.toFixed(3)}, ${wall.theirs?.toFixed(3) ?? '-'}`],
  ['processor, s', ({ cpu }) => `${cpu.ours.toFixed(3)}, ${cpu.theirs?.toFixed(3) ?? '-'}`],
  [
    'positions/s here',
    ({ samples, sequenceLength, wall }) => ((samples * sequenceLength) / wall.ours).toFixed(0),
  ],
  [`ratio by ${values.by}`, ({ ratio }) => ratio?.toFixed(2) ?? 'not measured'],
  ['goal', ({ goal, isMissed }) => `${goal}${isMissed ? ' MISSED' : ''}`],
];
const formatRow = (cells) => `| ${cells.join(' | ')} |`;

setNumThreads(threads);
const other = new PeerProcess(join(here, 'bert_peer.py'));
const versions = await other.versions();
const peer = versions && other;
const { instructionSet, onednnVersion } = hostInformation();
console.log(
  `${cpus()[0].model}, ${threads} threads, ${instructionSet}, oneDNN ${onednnVersion}, Node ${process.version}; ` +
    `torch ${versions?.torch ?? '-'}, transformers ${versions?.transformers ?? '-'}; load ${loadavg()[0].toFixed(1)}`,
);
if (!peer) console.log('skipped the other side: MTL_PEER_PYTHON names no Python with torch and transformers');
const directory = join(build, 'bert-base');
if (!existsSync(directory)) {
  const side = new BertSide({ dtype: 'float32', sequenceLength: 512, dropout: 0.1 });
  await side.save(directory);
  side.dispose();
}
const results = [];
for (const length of values.lengths.split(',')) {
  const sequenceLength = Number(length);
  const plan = {
    samples: Number(values.samples ?? plans[sequenceLength].samples),
    microBatches: values['micro-batches']?.split(',').map(Number) ?? plans[sequenceLength].microBatches,
  };
  const dataset = await openBertSamples({
    directory: build,
    sequenceLength,
    numSamples: 4000,
    corpus: values.corpus,
  });
  const readStep = makeStepReader(dataset, plan);
  const lengths = Array.from({ length: 20 }, (_, step) => [
    ...readStep(step, plan.samples).batches[0].lengths,
  ]).flat();
  const real = lengths.reduce((sum, one) => sum + one, 0) / lengths.length / sequenceLength;
  console.log(
    `S ${sequenceLength}: ${(100 * real).toFixed(1)} % of the positions of 20 steps are no padding`,
  );
  for (const dtype of values.dtypes.split(',')) {
    if (peer)
      await checkLosses({ peer, dtype, sequenceLength, directory, readStep, microBatch: plan.samples });
    for (const dropout of values.dropout.split(',').map(Number)) {
      const result = await compare({ peer, dtype, sequenceLength, dropout, directory, readStep, plan });
      results.push(result);
      console.log(columns.map(([name, cell]) => `${name} ${cell(result)}`).join('; '));
    }
  }
  dataset.close();
}
const theirBytes = peer && (await peer.ask({ do: 'memory' })).bytes;
const ourBytes = 1024 * process.resourceUsage().maxRSS;
peer?.close();
mkdirSync(dirname(values.log), { recursive: true });
writeFileSync(values.log, results.map((result) => `${JSON.stringify(result)}\n`).join(''));
console.log(`\nours, transformers'; raw results: ${values.log}\n`);
console.log(formatRow(columns.map(([name]) => name)));
console.log(formatRow(columns.map(() => '---')));
for (const result of results) console.log(formatRow(columns.map(([, cell]) => cell(result))));
if (peer) {
  const mebibytes = (bytes) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  console.log(
    `\npeak of the processes, of all configurations and micro-batches: ${mebibytes(ourBytes)} here, ` +
      `${mebibytes(theirBytes)} there: x${(ourBytes / theirBytes).toFixed(2)}`,
  );
}
process.exitCode = results.some(({ isMissed }) => isMissed) ? 1 : 0;
