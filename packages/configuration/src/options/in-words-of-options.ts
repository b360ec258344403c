import { rewordError } from '@mtl/errors';
import { optionOf } from './option-names.js';

/** A flag in a text: two dashes that follow neither a letter nor a dash. */
const flag = /(?<![\w-])--([a-z][a-z0-9-]*)/g;

const inOptions = (text: string): string =>
  text.replace(flag, (written: string, name: string) => {
    if (name === 'preset') return name;
    const switchedOff = name.startsWith('no-') ? optionOf(name.slice(3)) : undefined;
    return optionOf(name) ?? (switchedOff === undefined ? written : `${switchedOff} false`);
  });

/**
 * An error for those who wrote options: where it names flags, it names the options that stand for them
 * instead (`--clip-grad -1` → `optimizer.clipGrad -1`). Class and code stay the same.
 */
export const inWordsOfOptions = (error: unknown): unknown => rewordError(error, inOptions);
