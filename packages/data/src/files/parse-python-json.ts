const pythonNumber = /(?<![-.\w])(?:NaN|-?Infinity)\b/g;

/**
 * The value of a JSON text as Python's `json` reads it: NaN, Infinity and -Infinity, which it writes too, may
 * stand for numbers. They become 0: it is the values around them that are wanted.
 *
 * @throws SyntaxError for text that Python refuses too
 */
export function parsePythonJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const plain = withoutPythonNumbers(text);
    if (plain === text) throw error;
    return JSON.parse(plain);
  }
}

/** As long as before, so that a position in an error is that of the text. */
function withoutPythonNumbers(text: string): string {
  const parts: string[] = [];
  for (let start = 0; start < text.length; ) {
    const quote = text.indexOf('"', start);
    const outside = quote < 0 ? text.slice(start) : text.slice(start, quote);
    parts.push(outside.replace(pythonNumber, (word) => '0'.padEnd(word.length)));
    if (quote < 0) break;
    const end = endOfJsonString(text, quote);
    parts.push(text.slice(quote, end));
    start = end;
  }
  return parts.join('');
}

/** Where a string ends that begins at a quotation mark: behind its last one, or at the end of the text. */
export function endOfJsonString(text: string, start: number): number {
  for (let at = start + 1; ; ) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let backslashes = 0;
    while (text[quote - 1 - backslashes] === '\\') backslashes++;
    at = quote + 1;
    if (backslashes % 2 === 0) return at;
  }
}
