const stringOrWord = /"(?:[^"\\]|\\.)*"|-?\b(?:Infinity|NaN)\b/g;

/**
 * Parses JSON as Python writes it. Its `Infinity`, `-Infinity` and `NaN`, which JSON has not, become
 * `{"__float__": "Infinity"}` and so on, as the transformers library 5 writes and reads them.
 *
 * @throws SyntaxError
 */
export function parseConfigJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const spelled = text.replace(stringOrWord, (found) =>
      found.startsWith('"') ? found : `{"__float__":"${found}"}`,
    );
    if (spelled === text) throw error;
    return JSON.parse(spelled);
  }
}
