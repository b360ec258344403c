import { BadLines, corpusFileNames, corpusFiles, readDocuments } from '@mtl/data';
import { refuseExistingFiles } from '@mtl/data/internal';
import {
  type TrainingProgress,
  trainByteLevelBpe,
  trainWordPiece,
  writeTokenizerJson,
  writeVocabularyText,
} from '@mtl/tokenizers';
import type { Command } from 'commander';
import {
  folderLine,
  inWordsOfFlags,
  skipBadLinesOption,
  warnOfBadLines,
} from '../../command-line/corpus-reading.js';
import { newCommand } from '../../command-line/new-command.js';
import { choiceOption, countOption, overwriteOption } from '../../command-line/option-values.js';
import { ProgressBar } from '../../terminal/progress-bar.js';

interface TrainTokenizerFlags {
  readonly type: 'bpe' | 'wordpiece';
  readonly vocabSize: number;
  readonly input: string[];
  readonly output: string;
  readonly jsonKey: string;
  readonly textDocuments: 'paragraph' | 'file';
  readonly skipBadLines?: true;
  readonly minFrequency: number;
  readonly overwrite?: true;
}

/**
 * Creates the command `mtl data train-tokenizer`, which trains a vocabulary on a corpus and writes
 * tokenizer.json.
 */
export function trainTokenizerCommand(): Command {
  return newCommand(
    'train-tokenizer',
    'Learns a vocabulary from a corpus and writes a tokenizer.json or vocab.txt.',
  )
    .addOption(
      choiceOption('--type <type>', 'Byte-level BPE as GPT-2, or WordPiece as BERT.', [
        'bpe',
        'wordpiece',
      ]).makeOptionMandatory(),
    )
    .addOption(
      countOption(
        '--vocab-size <n>',
        'Size of the vocabulary, special tokens included.',
      ).makeOptionMandatory(),
    )
    .requiredOption('--input <files...>', `Files of text: ${corpusFileNames}; or folders of such files.`)
    .requiredOption('--output <file>', 'The tokenizer.json to write, or with --type wordpiece a vocab.txt.')
    .option('--json-key <key>', 'Key of JSON lines, or column of Parquet.', 'text')
    .addOption(
      choiceOption('--text-documents <what>', 'What a document of plain text is.', [
        'paragraph',
        'file',
      ]).default('paragraph'),
    )
    .addOption(skipBadLinesOption())
    .addOption(countOption('--min-frequency <n>', 'Merges only pairs that occur this often.').default(2))
    .addOption(overwriteOption('the file'))
    .action(trainTokenizer);
}

async function trainTokenizer(flags: TrainTokenizerFlags): Promise<void> {
  if (flags.overwrite !== true) {
    refuseExistingFiles([flags.output], {
      expected: 'a file that is not there: datasets may have been made with that tokenizer',
      remedy: 'name another file, or replace it with --overwrite',
    });
  }
  const inputs = flags.input.map(corpusFiles);
  for (const input of inputs) process.stdout.write(folderLine(input));
  const bad = new BadLines({ skip: flags.skipBadLines === true });
  const files = inputs.flatMap(({ files }) => files);
  const bar = new ProgressBar();
  try {
    const options = {
      texts: readTexts(files, { ...flags, bad }),
      vocabularySize: flags.vocabSize,
      minFrequency: flags.minFrequency,
      onProgress: (progress: TrainingProgress) => showProgress(bar, progress),
    };
    const tokenizer = flags.type === 'bpe' ? await trainByteLevelBpe(options) : await trainWordPiece(options);
    const isText = flags.type === 'wordpiece' && flags.output.endsWith('.txt');
    (isText ? writeVocabularyText : writeTokenizerJson)(flags.output, tokenizer);
    bar.close();
    warnOfBadLines(bad);
    const size = Object.keys(tokenizer.model.vocab as object).length;
    const short =
      size < flags.vocabSize
        ? ` (the corpus gives no more than that; ${flags.vocabSize} were asked for)`
        : '';
    process.stdout.write(
      `${flags.output}: ${size.toLocaleString('en-US')} tokens${short} in ${bar.seconds.toFixed(1)} s\n`,
    );
  } catch (error) {
    throw inWordsOfFlags(error, { keyFlag: '--json-key', skipsBadLines: flags.skipBadLines === true });
  } finally {
    bar.close();
  }
}

async function* readTexts(
  files: readonly string[],
  { jsonKey, textDocuments, bad }: TrainTokenizerFlags & { readonly bad: BadLines },
): AsyncGenerator<string> {
  const { onBadLine } = bad;
  let numDocuments = 0;
  for (const path of files) {
    for await (const text of readDocuments({ path, jsonKey, textDocuments, onBadLine })) {
      numDocuments++;
      yield text;
    }
  }
  bad.checkSomeUsable(numDocuments);
}

function showProgress(bar: ProgressBar, progress: TrainingProgress): void {
  if (progress.stage === 'counting') {
    bar.update(
      undefined,
      `${progress.texts.toLocaleString('en-US')} texts, ${progress.words.toLocaleString('en-US')} words`,
    );
  } else {
    bar.update(
      progress.symbols / progress.vocabularySize,
      `${progress.symbols.toLocaleString('en-US')} tokens`,
    );
  }
}
