// What each kind is to reach: attention PyTorch's time, products a share of cuBLAS's own large product, the
// rest a share of the card's copy rate. A kernel whose input fits the cache may be beyond 1.
export const goals = { attention: 1, product: 0.85, memory: 0.8 };

const kindOf = ({ operation, flops }) =>
  operation.includes('attention_') ? 'attention' : flops === undefined ? 'memory' : 'product';

/**
 * Seconds of PyTorch for the same attention, in bfloat16 and without dropout; undefined where it has not run
 * it.
 */
function secondsOfPeer({ operation, dtype, qkv, name }, attention) {
  const isCompared = operation === 'attention_forward' || operation === 'attention_backward';
  if (!isCompared || dtype !== 'bfloat16' || name.includes('dropout')) return undefined;
  const [s, b, a, , d] = qkv;
  const isCausal = name.includes(' causal');
  const same = attention.find(
    ({ shape, causal }) => causal === isCausal && String(shape) === String([s, b, a, d]),
  );
  return operation === 'attention_forward' ? same?.forward_s : same?.backward_s;
}

/**
 * Bytes or FLOPs per second of PyTorch's own copy or product: the rate that a kernel of this kind cannot
 * beat.
 */
function rateOfPeer(kind, peer) {
  if (kind === 'memory') return Math.max(...peer.copies.map(({ gb_per_s }) => gb_per_s * 1e9));
  return Math.max(...peer.products.map(({ tflops }) => tflops * 1e12));
}

/**
 * Each of our rows with what it is held against, and whether it reaches the goal of its kind; a row without a
 * counterpart has no verdict. Products and copies are measured by us and by PyTorch: the faster of the two
 * counts, in bfloat16 for products. `peer`: PyTorch's rates (peer_kernels.py), or undefined.
 */
export function compareKernels({ rows, peer }) {
  return rows.map((row) => {
    const kind = kindOf(row);
    const common = { name: row.name, dtype: row.dtype, kind, seconds: row.bestSeconds, rate: row.rate };
    if (kind !== 'attention') {
      const isComparable = peer !== undefined && (kind === 'memory' || row.dtype === 'bfloat16');
      const theirs = isComparable
        ? (row.flops ?? row.bytes) / row.bestSeconds / rateOfPeer(kind, peer)
        : Number.POSITIVE_INFINITY;
      return verdict({ ...common, against: row.peer, ratio: Math.min(row.ratio, theirs) });
    }
    const seconds = secondsOfPeer(row, peer?.attention ?? []);
    const against = seconds === undefined ? 'nothing to compare with' : `${(seconds * 1e3).toFixed(3)} ms`;
    return verdict({ ...common, against, ratio: seconds === undefined ? null : seconds / row.bestSeconds });
  });
}

/** Kernels that are timed beside those that the device chooses have a ratio, and no goal. */
function verdict(row) {
  const goal = goals[row.kind];
  const isJudged = row.ratio !== null && !row.name.includes('mma.sync');
  return { ...row, goal, reached: isJudged ? row.ratio >= goal : null };
}

/** The comparison as a table in Markdown. */
export function formatKernels(rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const header = ['kernel', 'dtype', 'ms', 'rate', 'held against', 'ratio', 'goal'];
  return [
    line(header),
    line(header.map(() => '---')),
    ...rows.map((row) =>
      line([
        ...[row.name, row.dtype, (row.seconds * 1e3).toFixed(3), row.rate, row.against],
        row.ratio === null ? '-' : row.ratio.toFixed(2),
        row.reached === null ? '-' : `${row.goal}${row.reached ? '' : ' (missed)'}`,
      ]),
    ),
    '',
    'Fastest runs. Products are held against the library’s own product of 8192 x 8192 matrices, attention against PyTorch’s ' +
      'scaled_dot_product_attention, everything else against a copy of as many bytes, or PyTorch’s product and copy where those are faster; all in this run.',
  ].join('\n');
}
