export interface StudiedRun {
  readonly depth: number;
  readonly placement: 'pre' | 'post';
  readonly points: readonly { readonly step: number; readonly loss: number }[];
}

/** Loss curves as an SVG: a panel a depth, a line a run. */
export function drawLossCurves(runs: readonly StudiedRun[]): string;
