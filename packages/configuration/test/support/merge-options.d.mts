import type { RunOptions } from '@mtl/configuration';

export function mergeOptions(...all: readonly RunOptions[]): RunOptions;
