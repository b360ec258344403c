/** What a decoder of the library looks like to us. */
interface LibraryDecoder {
  readonly decoders?: readonly (LibraryDecoder | null)[];
  readonly config?: {
    readonly type?: string;
    readonly prepend_scheme?: string;
    readonly replacement?: string;
  };
  decode_chain(tokens: readonly string[]): string[];
}

/**
 * Corrects decoders of @huggingface/tokenizers 0.2.0, in place: a run of byte tokens that is not valid UTF-8
 * becomes one U+FFFD for each of its bytes, valid ones included, as in the tokenizers library, and a byte
 * order mark stays. Metaspace takes away all spaces of the first token, and none where it prepends none.
 */
export function correctDecoder(decoder: unknown): void {
  // Instances of the library can be called: they are functions.
  const found = decoder as LibraryDecoder | null | undefined;
  if (found === null || found === undefined) return;
  for (const part of found.decoders ?? []) correctDecoder(part);
  if (found.config?.type === 'ByteFallback') found.decode_chain = joinBytes;
  if (found.config?.type === 'Metaspace') {
    const { replacement = '\u2581', prepend_scheme: scheme } = found.config;
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
