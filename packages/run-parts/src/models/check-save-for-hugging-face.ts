import { ConfigurationError } from '@mtl/errors';

/**
 * Several processes hold shards of a model: --save-hf and --save-lora are written from the checkpoint, which
 * is complete.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS without --save
 */
export function checkSaveForHuggingFace(options: {
  readonly worldSize: number;
  readonly save?: string | undefined;
  readonly saveHuggingFace?: string | undefined;
  readonly saveLora?: string | undefined;
}): void {
  const { worldSize, save, saveHuggingFace, saveLora } = options;
  if (worldSize === 1 || save !== undefined) return;
  if (saveHuggingFace === undefined && saveLora === undefined) return;
  throw new ConfigurationError(
    'MTL_FLAG_NEEDS',
    `--save-${saveHuggingFace === undefined ? 'lora' : 'hf'} with several processes is written from the last checkpoint`,
    { expected: '--save DIR' },
  );
}
