import type { Sampling } from '@mtl/inference';

/** How a text is continued unless other sampling is asked for: at the end of a run, and by `mtl generate`. */
export const defaultSampling = { temperature: 0.8, topP: 0.95 } as const satisfies Sampling;
