/**
 * The number of steps at the start that are not timed. In these steps, memory is allocated, primitives are
 * made and files are first read.
 */
const numWarmUpSteps = 4;

const quantile = (sorted, part) => {
  const position = part * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(position)], sorted[Math.ceil(position)]];
  return low + (position - Math.floor(position)) * (high - low);
};

export const median = (values) =>
  quantile(
    [...values].sort((a, b) => a - b),
    0.5,
  );

/**
 * Returns the median time of the steady steps in seconds, half of the interquartile range as a fraction of
 * the median, and the peak bytes.
 */
export function measuredStep(steps) {
  const steady = steps.slice(numWarmUpSteps).map(({ step_ms: ms }) => ms / 1000);
  const sorted = [...steady].sort((a, b) => a - b);
  const seconds = quantile(sorted, 0.5);
  return {
    seconds,
    spread: (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / 2 / seconds,
    peakBytes: Math.max(...steps.map(({ peak_bytes: bytes }) => bytes)),
  };
}

/** Returns the errors of a prediction, as fractions of the measured values. */
export function computeErrors(predicted, measured) {
  return {
    time: predicted.seconds / measured.seconds - 1,
    memory: predicted.peakBytes / measured.peakBytes - 1,
  };
}

const percent = (part) => `${(100 * part).toFixed(1)} %`;
const mebibytes = (bytes) => (bytes / 2 ** 20).toFixed(1);

/** Returns a Markdown table, followed by the errors over all rows. */
export function comparisonTable(rows) {
  const lines = rows.map(({ name, predicted, measured }) => {
    const { time, memory } = computeErrors(predicted, measured);
    return [
      name,
      (1000 * predicted.seconds).toFixed(1),
      (1000 * measured.seconds).toFixed(1),
      percent(time),
      percent(measured.spread),
      mebibytes(predicted.peakBytes),
      mebibytes(measured.peakBytes),
      `${(100 * memory).toFixed(2)} %`,
    ];
  });
  const header = [
    ...['run', 'predicted ms', 'measured ms', 'error', 'spread'],
    ...['predicted MiB', 'measured MiB', 'error of memory'],
  ];
  const row = (cells) => `| ${cells.join(' | ')} |`;
  const errors = rows.map(({ predicted, measured }) => computeErrors(predicted, measured));
  const times = errors.map(({ time }) => Math.abs(time));
  const memories = errors.map(({ memory }) => Math.abs(memory));
  return [
    row(header),
    row(header.map(() => '---')),
    ...lines.map(row),
    '',
    `step time: median error ${percent(median(times))}, worst ${percent(Math.max(...times))} (asked: 10 %, 20 %)`,
    `memory: worst error ${(100 * Math.max(...memories)).toFixed(2)} % (asked: 1 %)`,
    '',
  ].join('\n');
}

/**
 * Returns true if the errors in the table are within the targets: for time, a median of at most 10 % and a
 * maximum of 20 %; for memory, 1 %.
 */
export function isWithinBars(rows) {
  const errors = rows.map(({ predicted, measured }) => computeErrors(predicted, measured));
  const times = errors.map(({ time }) => Math.abs(time));
  return (
    median(times) <= 0.1 &&
    Math.max(...times) <= 0.2 &&
    errors.every(({ memory }) => Math.abs(memory) <= 0.01)
  );
}
