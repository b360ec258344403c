import type { Layout, ModelSize } from '../src/index.js';

/** A measured step and the settings that its source states. */
export interface MeasuredRow {
  readonly set: string;
  readonly name: string;
  readonly profile: string;
  readonly model: ModelSize;
  readonly layout: Layout;
  readonly seconds: number;
  /** Of a GPU, as the source states it, where seconds are computed from it. */
  readonly teraflops?: number;
  /** Constants are fitted on it. */
  readonly fitted: boolean;
  /** Settings of the software that differ from the profile's. */
  readonly scattersMessages?: boolean;
  readonly fusesKernels?: boolean;
  readonly shardsParameters?: boolean;
}
