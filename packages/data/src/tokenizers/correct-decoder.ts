import { type PatternSettings, replaceMatches, textPattern } from './text-pattern.js';

/** What a decoder of the library looks like to us. */
interface LibraryDecoder {
  readonly decoders?: readonly (LibraryDecoder | null)[];
  decode_chain(tokens: readonly string[]): string[];
}

/** A decoder in tokenizer.json. */
interface DecoderSettings {
  readonly type?: string;
  readonly decoders?: readonly unknown[];
  readonly prepend_scheme?: string;
  readonly replacement?: string;
  /** Of a Replace. */
  readonly pattern?: PatternSettings;
  readonly content?: string;
}

/**
 * Corrects decoders of @huggingface/tokenizers 0.2.0, in place: a run of byte tokens that is not valid UTF-8
 * becomes one U+FFFD for each of its bytes, valid ones included, as in the tokenizers library, and a byte
 * order mark stays. Metaspace takes away all spaces of the first token, and none where it prepends none.
 * Replace reads expressions as Oniguruma, and `$` of its content as it is.
 *
 * @param settings the decoder in tokenizer.json
 */
export function correctDecoder(decoder: unknown, settings: unknown): void {
  // Instances of the library can be called: they are functions.
  const found = decoder as LibraryDecoder | null | undefined;
  if (found === null || found === undefined) return;
  const config = settings as DecoderSettings | null | undefined;
  for (const [i, part] of (found.decoders ?? []).entries()) correctDecoder(part, config?.decoders?.[i]);
  if (config?.type === 'ByteFallback') found.decode_chain = joinBytes;
  if (config?.type === 'Replace') {
    const { pattern = {}, content = '' } = config;
    const expression = textPattern(pattern);
    found.decode_chain = (tokens) => tokens.map((token) => replaceMatches(token, expression, content));
  }
  if (config?.type === 'Metaspace') {
    const { replacement = '\u2581', prepend_scheme: scheme } = config;
    found.decode_chain = (tokens) =>
      tokens.map((token, index) =>
        token.replaceAll(replacement, index === 0 && scheme !== 'never' ? '' : ' '),
      );
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function joinBytes(tokens: readonly string[]): string[] {
  const texts: string[] = [];
  let run: number[] = [];
  const endRun = (): void => {
    if (run.length > 0) texts.push(textOfBytes(run));
    run = [];
  };
  for (const token of tokens) {
    const byte = /^<0x([0-9a-f]{2})>$/i.exec(token)?.[1];
    if (byte !== undefined) {
      run.push(Number.parseInt(byte, 16));
      continue;
    }
    endRun();
    texts.push(token);
  }
  endRun();
  return texts;
}

function textOfBytes(bytes: readonly number[]): string {
  try {
    return utf8.decode(Uint8Array.from(bytes));
  } catch {
    // Not UTF-8.
    return '\ufffd'.repeat(bytes.length);
  }
}
