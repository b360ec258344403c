import { existsSync, realpathSync } from 'node:fs';
import { dirname, relative, resolve, sep } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import { isScheduleModule } from '../schedules/is-schedule-module.js';
import type { ConfigFile } from './config-file.js';
import type { ResolvedFlags } from './resolve-flags.js';

/** Flags that may name code. */
const flagsOfModules = ['pipeline-schedule', 'model-blocks'] as const;

/**
 * Refuses to run code that a file of settings names anywhere but in its own folder: such files are passed
 * around as data.
 *
 * @throws ConfigurationError `MTL_CONFIG_SCHEDULE` for a module outside the file's folder
 */
export function checkModulesOfFile(file: ConfigFile, { values, sources }: ResolvedFlags): void {
  for (const name of flagsOfModules) {
    const module = values[name];
    const isData = name === 'pipeline-schedule' && module !== undefined && !isScheduleModule(module);
    if (module === undefined || isData || sources.get(name) !== file.path) continue;
    const folder = realPath(dirname(file.path));
    if (relative(folder, realPath(module)).split(sep)[0] !== '..') continue;
    throw new ConfigurationError(
      'MTL_CONFIG_SCHEDULE',
      `${name} in ${file.path} is ${module}, a module outside the folder of that file, which would be run`,
      {
        expected: `a module in ${folder}`,
        remedy: `pass --${name} ${module} on the command line if you trust it, or move it into that folder`,
        details: { file: file.path, module },
      },
    );
  }
}

/** Without symbolic links, as far as it exists. */
function realPath(path: string): string {
  const absolute = resolve(path);
  return existsSync(absolute) ? realpathSync(absolute) : absolute;
}
