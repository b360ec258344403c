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
