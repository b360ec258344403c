import { existsSync, readdirSync } from 'node:fs';
import { ConfigurationError } from '@mtl/errors';

/**
 * Checks before a run that --save-hf, or another flag that names a directory to write, can be written after
 * it.
 *
 * @throws ConfigurationError MTL_HUGGING_FACE_EXISTS when it holds files
 */
export function checkHuggingFaceTarget(directory: string, flag: 'save-hf' | 'save-lora' = 'save-hf'): void {
  if (!existsSync(directory) || readdirSync(directory).length === 0) return;
  throw new ConfigurationError('MTL_HUGGING_FACE_EXISTS', `--${flag} ${directory} holds files already`, {
    expected: 'a new or an empty directory',
  });
}

/**
 * Refuses flags by which several processes, which hold shards of a model, would export it: --save-hf and
 * --save-lora are written from the checkpoint, which is complete.
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
