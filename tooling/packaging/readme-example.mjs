import { readFileSync } from 'node:fs';
import ts from 'typescript';

const fence = /^```(\w*)[^\n]*\n([\s\S]*?)^```$/gm;

/**
 * The example of a README: its first ```ts block, the same as JavaScript (types are removed, nothing else
 * happens to it) and, where the next block is ```text, what it prints. Undefined for a README without a ```ts
 * block.
 */
export function readmeExample(path) {
  const blocks = [...readFileSync(path, 'utf8').matchAll(fence)].map(([, language, text]) => ({
    language,
    text,
  }));
  const at = blocks.findIndex(({ language }) => language === 'ts');
  if (at < 0) return undefined;
  const { outputText } = ts.transpileModule(blocks[at].text, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
  });
  const next = blocks[at + 1];
  return {
    source: blocks[at].text,
    code: outputText,
    output: next?.language === 'text' ? next.text : undefined,
  };
}
