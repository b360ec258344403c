import { existsSync, readdirSync } from 'node:fs';
import { adapterExports } from '@mtl/configuration/internal';
import { ConfigurationError } from '@mtl/errors';

/**
 * Checks at the start of a run that files can be written at its end to the directory of --save-hf, or of
 * another export flag named by `flag`.
 *
 * @throws ConfigurationError MTL_HUGGING_FACE_EXISTS if the directory contains files
 */
export function checkHuggingFaceTarget(directory: string, flag = 'save-hf'): void {
  if (!existsSync(directory) || readdirSync(directory).length === 0) return;
  throw new ConfigurationError('MTL_HUGGING_FACE_EXISTS', `--${flag} ${directory} holds files already`, {
    expected: 'a new or an empty directory',
  });
}

/** The flags that name directories for exports to other programs. */
type RunExports = Parameters<typeof adapterExports>[0] & { readonly saveHuggingFace?: string | undefined };

/** Returns the directories of the exports that a run writes at its end, by flag name. */
export const exportsOfRun = (checkpoint: RunExports): Readonly<Record<string, string | undefined>> => ({
  'save-hf': checkpoint.saveHuggingFace,
  ...adapterExports(checkpoint),
});

/**
 * Rejects exports without --save if several processes hold shards of the model. Such exports are written from
 * the checkpoint, which is complete.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS without --save
 */
export function checkSaveForHuggingFace(
  checkpoint: RunExports & { readonly save?: string | undefined },
  { worldSize }: { readonly worldSize: number },
): void {
  if (worldSize === 1 || checkpoint.save !== undefined) return;
  const [asked] =
    Object.entries(exportsOfRun(checkpoint)).find(([, directory]) => directory !== undefined) ?? [];
  if (asked === undefined) return;
  throw new ConfigurationError(
    'MTL_FLAG_NEEDS',
    `--${asked} with several processes is written from the last checkpoint`,
    { expected: '--save DIR' },
  );
}
