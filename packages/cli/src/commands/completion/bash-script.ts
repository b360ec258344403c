import type { CompletedCommand } from './completed-command.js';
import { readWords, shellTables } from './shell-tables.js';

/** The script that completes `mtl`, `gpt-train` and `bert-train` in bash. */
export function bashScript(commands: readonly CompletedCommand[]): string {
  return `# Completes mtl, gpt-train and bert-train in bash: source <(mtl completion bash)
${shellTables(commands)}_mtl_words() {
${readWords}}
_mtl() {
  local program="\${COMP_WORDS[0]}" current="\${COMP_WORDS[COMP_CWORD]}" reply_words reply_files
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")
  # bash takes = for a word
  if [[ $current == '=' ]]; then current=''; fi
  _mtl_words
  COMPREPLY=($(compgen -W "$reply_words" -- "$current"))
  if [[ $reply_files == 1 ]]; then
    local file
    while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null || true
  fi
}
complete -F _mtl mtl gpt-train bert-train
`;
}
