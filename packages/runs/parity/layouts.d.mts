import type { RunOptions } from '@mtl/configuration';

export interface ParityLayout {
  readonly model: 'gpt' | 'bert' | 'llama' | 'qwen-moe' | 'deepseek';
  readonly name: string;
  /** Sizes along axes of the mesh above 1. */
  readonly sizes: Readonly<Record<string, number>>;
  readonly traits: readonly string[];
  readonly precision: 'fp32' | 'bf16';
  readonly numProcesses: number;
  readonly numLayers: number;
  readonly options: RunOptions;
}

export const layouts: readonly ParityLayout[];
export const allLayouts: readonly ParityLayout[];
export const faults: readonly (ParityLayout & {
  readonly fault: string;
  readonly noticedBy: 'loss' | 'gradientNorm' | 'gradients';
})[];
