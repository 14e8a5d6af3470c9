# Completion of broker for bash, and for zsh by bashcompinit: broker completion bash|zsh
if [[ -n ${ZSH_VERSION-} ]]; then
    autoload -Uz bashcompinit && bashcompinit
fi

_broker_words() {
    case "$1" in
# TABLE
    *) words=""; return 1 ;;
    esac
}

_broker() {
    local words="" at=broker before="" state="" cur="" line="" word="" program="" lead="" newline=$'\n'
    local -a typed
    typed=()
    COMPREPLY=()
    line="${COMP_LINE:0:$COMP_POINT}"
    # Split at blanks only: bash also splits at colons, which addresses contain.
    if [[ -n ${ZSH_VERSION-} ]]; then read -r -A typed <<< "$line"; else read -r -a typed <<< "$line"; fi
    if [[ "$line" == *[[:space:]] ]]; then typed+=(""); fi
    for word in "${typed[@]}"; do
        if [[ -z "$program" ]]; then program="$word"; continue; fi
        if [[ -n "$cur" ]]; then
            if [[ "$before" == --state ]]; then state="$cur"; fi
            if ! { [[ "$before" == -* ]] && _broker_words "$at:$before"; } &&
                [[ "$cur" != -* ]] && _broker_words "$at $cur"; then
                at="$at $cur"
            fi
            before="$cur"
        fi
        cur="$word"
    done
    if [[ "$before" == -* ]] && _broker_words "$at:$before"; then :
    elif [[ "$cur" == -* ]]; then _broker_words "$at:"
    else _broker_words "$at"
    fi
    case "$words" in
    @files)
        if [[ -n ${ZSH_VERSION-} ]]; then _files; else compopt -o default; fi
        return ;;
    @dirs)
        if [[ -n ${ZSH_VERSION-} ]]; then _files -/; else compopt -o dirnames; fi
        return ;;
    @*)
        # These names are not expanded by the shell.
        words="$(_BROKER_NAMES="${words#@}" _BROKER_BEGINNING="$cur" \
            BROKER_STATE="${state:-${BROKER_STATE-}}" "${program/#\~/$HOME}" 2>/dev/null)" ;;
    *) words="${words// /$newline}" ;;
    esac
    if [[ -z ${ZSH_VERSION-} && "$COMP_WORDBREAKS" == *:* ]]; then lead="${cur%"${cur##*:}"}"; fi
    while IFS= read -r word; do
        if [[ -n "$word" && "${word:0:${#cur}}" == "$cur" ]]; then
            word="${word:${#lead}}"
            if [[ -z ${ZSH_VERSION-} ]]; then printf -v word %q "$word"; fi
            COMPREPLY+=("$word")
        fi
    done <<< "$words"
}

complete -F _broker broker
