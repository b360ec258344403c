import { ConfigurationError } from '@mtl/errors';

/** The error for variables of a launcher that miss something or contradict each other. */
export function launchError(
  message: string,
  { expected, remedy }: { readonly expected?: string; readonly remedy: string },
): ConfigurationError {
  return new ConfigurationError('MTL_LAUNCH_ENVIRONMENT', message, {
    ...(expected === undefined ? {} : { expected }),
    remedy,
  });
}
