/** Returns the byte that each character of byte-level vocabularies stands for. */
function bytesByCharacter(): ReadonlyMap<string, number> {
  const isShown = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return new Map(
    Array.from({ length: 256 }, (_, byte) => [String.fromCharCode(isShown(byte) ? byte : next++), byte]),
  );
}

const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80;

/** Returns whether bytes are a part of one character, after a space or not. */
const isFragment = (bytes: Uint8Array): boolean =>
  (bytes[0] === 32 ? bytes.subarray(1) : bytes).every((byte, index) => index === 0 || isContinuation(byte));

const hasMark = /\p{M}/u;
const hasCapitalAfterSmallLetter = /\p{Ll}\p{L}*[\p{Lu}\p{Lt}]/u;
const isAscii = /^\p{ASCII}*$/u;

/**
 * Returns a token of a byte-level BPE with the pattern of GPT-4o that reaches over a place where llama.cpp
 * splits in another way: llama.cpp has only ASCII's capitals and small letters (llama-vocab.cpp), splits
 * combining marks from their letters, and keeps a capital outside of ASCII with the letters before it.
 * Without such a token, the merges are the same.
 *
 * @param tokens the tokens as the vocabulary has them
 */
export function tokenWithOtherMerges(tokens: Iterable<string>): string | undefined {
  const bytesOf = bytesByCharacter();
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for (const token of tokens) {
    const bytes = Uint8Array.from(token, (character) => bytesOf.get(character) ?? 0);
    let text: string;
    try {
      text = decoder.decode(bytes);
    } catch {
      if (isFragment(bytes)) continue;
      return token;
    }
    const isCapitalOfOthers = !isAscii.test(text) && hasCapitalAfterSmallLetter.test(text);
    if (isCapitalOfOthers || (hasMark.test(text) && [...text].length > 1)) return text;
  }
  return undefined;
}
