import type { Profile } from '@mtl/planner';

/**
 * That a plan predicts, and how far off predictions of its kind were on measured steps: the numbers of
 * docs/benchmarks (planner-against-papers, planner-against-runs).
 */
export function accuracy({ hardware, software }: Profile): string {
  if (hardware.state === 'measured') {
    return (
      'predicted, not measured: of 18 layouts on two cores, steps were 7.5 and 10.6 % off in the median of two runs, ' +
      '30 % at most'
    );
  }
  const papers =
    'steps that papers published, and that no constant was fitted on, were 1 to 13 % off on average by paper, ' +
    '24 % at most (80 steps)';
  return software.operations === 'listed'
    ? `predicted, not measured: ${papers}`
    : `predicted, not measured: with this model of GPUs, ${papers}; this program was not measured on one yet`;
}
