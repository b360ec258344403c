// Measures attention over several documents in one row, forward and backward, as a fraction of the time of
// causal attention over the complete row. Documents are given by their first keys (`keyStart`), or as packed
// samples. The results of both forms are compared first. The program fails if the fraction is above
// --at-most.
//   npm run dev -- document-attention [--threads 2] [--dtype float32] [--at-most 0.25]
import { parseArgs } from 'node:util';
import {
  attentionBackward,
  attentionForward,
  attentionRowSums,
  hostInformation,
  setNumThreads,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';

const { values: flags } = parseArgs({
  options: {
    threads: { type: 'string' },
    dtype: { type: 'string', default: 'float32' },
    'at-most': { type: 'string', default: '0.25' },
  },
});
if (flags.threads !== undefined) setNumThreads(Number(flags.threads));
const { dtype } = flags;
const [sequence, numDocuments, heads, size] = [2048, 8, 12, 64];
const length = sequence / numDocuments;
const rounds = 15;

function random(shape) {
  let state = 1;
  const values = Array.from({ length: shape.reduce((product, dim) => product * dim, 1) }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32 - 0.5) * 3.46; // variance 1
  });
  return Tensor.from(values, { shape, dtype });
}

/** Returns the operands for a row with positions [S, 1], or with T packed rows. */
function problem(visibility) {
  const rows = visibility.packed === undefined ? [sequence, 1] : [sequence];
  const qkvGradient = Tensor.empty({ shape: [...rows, heads, 3, size], dtype });
  const { query, key, value } = splitProjection(qkvGradient);
  const statistics = visibility.packed === undefined ? [1, heads, sequence] : [heads, sequence];
  return {
    ...splitProjection(random([...rows, heads, 3, size])),
    output: Tensor.empty({ shape: [...rows, heads, size], dtype }),
    logSumExp: Tensor.empty({ shape: statistics, dtype: 'float32' }),
    rowSums: Tensor.empty({ shape: statistics, dtype: 'float32' }),
    outputGradient: random([...rows, heads, size]),
    qkvGradient,
    queryGradient: query,
    keyGradient: key,
    valueGradient: value,
    visibility: { causal: true, ...visibility },
  };
}

const starts = Array.from({ length: numDocuments + 1 }, (_, index) => index * length);
const integers = (values, shape) => Tensor.from(values, { shape, dtype: 'int32' });
const calls = {
  'whole row': problem({}),
  'documents by keyStart': problem({
    keyStart: integers(
      Array.from({ length: sequence }, (_, position) => position - (position % length)),
      [1, sequence],
    ),
  }),
  'packed documents': problem({
    packed: {
      starts: integers(starts, [numDocuments + 1]),
      longest: length,
      numScores: numDocuments * length ** 2,
    },
  }),
};

function run(call) {
  const start = performance.now();
  attentionForward(call);
  const between = performance.now();
  attentionRowSums(call);
  attentionBackward(call);
  return { forward: between - start, backward: performance.now() - between };
}

/** Throws an error unless `left` and `right` have the same values. */
function compare(left, right) {
  for (const name of ['output', 'qkvGradient']) {
    const [expected, actual] = [left[name].toArray(), right[name].toArray()];
    const difference = expected.reduce(
      (most, value, index) => Math.max(most, Math.abs(value - actual[index])),
      0,
    );
    // in both cases, tiles of documents begin at multiples of 64, so the sums are the same
    if (!(difference <= 1e-6)) throw new Error(`${name} differs by ${difference}`);
  }
}

for (const call of Object.values(calls)) run(call);
compare(calls['documents by keyStart'], calls['packed documents']);
const fastest = Object.fromEntries(
  Object.keys(calls).map((name) => [name, { forward: Infinity, backward: Infinity }]),
);
for (let round = 0; round < rounds; round++) {
  for (const [name, call] of Object.entries(calls)) {
    const { forward, backward } = tidy(() => run(call));
    fastest[name].forward = Math.min(fastest[name].forward, forward);
    fastest[name].backward = Math.min(fastest[name].backward, backward);
  }
}
const total = ({ forward, backward }) => forward + backward;
console.log(
  `${numDocuments} documents of ${length} in a row of ${sequence}, ${heads} heads of ${size}, ${dtype}, ` +
    `${hostInformation().numThreads} threads; fastest of ${rounds} runs`,
);
const whole = total(fastest['whole row']);
for (const [name, times] of Object.entries(fastest)) {
  const share = total(times) / whole;
  console.log(
    `  ${name}: forward ${times.forward.toFixed(2)} ms, backward ${times.backward.toFixed(2)} ms, ` +
      `${share.toFixed(3)} of the whole row`,
  );
  if (name !== 'whole row' && !(share <= Number(flags['at-most']))) process.exitCode = 1;
}
