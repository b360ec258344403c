import { DataError } from '@mtl/errors';

/** The error of a conversation that cannot be trained on. */
export function conversationError(
  where: string,
  what: string,
  options: { readonly expected?: string; readonly remedy?: string; readonly cause?: unknown } = {},
): DataError {
  return new DataError('MTL_DATA_CONVERSATION', `${where}: ${what}`, { ...options, details: { where } });
}
