// The target for each kind of kernel: for attention, a multiple of PyTorch's speed; for matmuls, a fraction
// of cuBLAS's rate for a large matmul; for all other kernels, a fraction of the GPU's copy rate. If a
// kernel's input fits into the cache, the fraction may be above 1.
export const goals = { attention: 1, matmul: 0.85, memory: 0.8 };

const nameKind = ({ operation, flops }) =>
  operation.includes('attention_') ? 'attention' : flops === undefined ? 'memory' : 'matmul';

/**
 * Returns PyTorch's time in seconds for the same attention, in bfloat16 and without dropout; undefined if
 * PyTorch did not run it.
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
 * Returns the rate of PyTorch's own copy or matmul, in bytes or FLOPs per second. A kernel of this kind
 * cannot exceed this rate.
 */
function rateOfPeer(kind, peer) {
  if (kind === 'memory') return Math.max(...peer.copies.map(({ gb_per_s }) => gb_per_s * 1e9));
  return Math.max(...peer.products.map(({ tflops }) => tflops * 1e12));
}

/**
 * Returns each of our rows with the rate with which it is compared, and a verdict: true if the row reaches
 * the target for its kind. A row without a comparison has no verdict. The rates of matmuls (in bfloat16) and
 * of copies are measured by our programs and by PyTorch; the faster measurement is used. `peer`: PyTorch's
 * rates (see peer_kernels.py), or undefined.
 */
export function compareKernels({ rows, peer }) {
  return rows.map((row) => {
    const kind = nameKind(row);
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

/**
 * Returns the row with its verdict. Rows of the kernels for any GPU, which are measured in addition to the
 * chosen kernels, have a ratio but no target.
 */
function verdict(row) {
  const goal = goals[row.kind];
  const isJudged = row.ratio !== null && !row.name.includes('mma.sync');
  return { ...row, goal, reached: isJudged ? row.ratio >= goal : null };
}

/** Returns the comparison as a Markdown table. */
export function formatKernels(rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const header = ['kernel', 'dtype', 'ms', 'rate', 'compared with', 'ratio', 'goal'];
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
    'Fastest runs. Matmuls are compared with the library’s own matmul of 8192 x 8192 matrices, attention with PyTorch’s ' +
      'scaled_dot_product_attention, everything else with a copy of the same number of bytes, or PyTorch’s matmul and copy where these are faster; all in this run.',
  ].join('\n');
}
