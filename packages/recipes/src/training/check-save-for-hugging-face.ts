import { ConfigurationError } from '@mtl/errors';

/**
 * Several processes hold shards of a model: --save-hf is written from the checkpoint, which is complete.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS without --save
 */
export function checkSaveForHuggingFace(options: {
  readonly worldSize: number;
  readonly save: string | undefined;
  readonly saveHuggingFace: string | undefined;
}): void {
  const { worldSize, save, saveHuggingFace } = options;
  if (worldSize === 1 || saveHuggingFace === undefined || save !== undefined) return;
  throw new ConfigurationError(
    'MTL_FLAG_NEEDS',
    '--save-hf with several processes is written from the last checkpoint',
    { expected: '--save DIR' },
  );
}
