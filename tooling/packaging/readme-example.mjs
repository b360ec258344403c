import { readFileSync } from 'node:fs';
import ts from 'typescript';

/** The line before an example, for readers who have never run a TypeScript file. */
const howToRun =
  'Saved as `example.mts` in [a folder with the packages](../../docs/guides/README.md#a-folder-with-the-packages), ' +
  '`npx tsx example.mts` runs it\n(Node 22.18 and newer: `node example.mts`):';

const fence = /^```(\w*)[^\n]*\n([\s\S]*?)^```$/gm;

/**
 * Returns the example in a README: the code in its first `ts` block; the same code as JavaScript, with only
 * the types removed; true if the text explains how to run it, otherwise false; and its output, if the next
 * block is a `text` block.
 * Undefined for a README without a `ts` block.
 */
export function readmeExample(path) {
  const readme = readFileSync(path, 'utf8');
  const blocks = [...readme.matchAll(fence)].map(([, language, text]) => ({
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
    isIntroduced: readme.includes(`${howToRun}\n\n\`\`\`ts\n`),
    output: next?.language === 'text' ? next.text : undefined,
  };
}
