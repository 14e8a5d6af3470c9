# Completion of broker for fish: broker completion fish

function __broker_at --description 'Whether these commands were typed'
    set -l path broker
    for word in (commandline -opc)[2..-1]
        if contains -- "$path $word" $__broker_paths
            set path "$path $word"
        end
    end
    test "$path" = "$argv"
end

function __broker_names --description 'Ids of subscriptions, channels, feeds'
    set -l words (commandline -opc)
    set -l state $BROKER_STATE
    for at in (seq (count $words))
        if test "$words[$at]" = --state; and set -q words[(math $at + 1)]
            set state $words[(math $at + 1)]
        end
    end
    _BROKER_NAMES=$argv[1] _BROKER_BEGINNING=(commandline -ct) BROKER_STATE="$state" $words[1] 2>/dev/null
end

complete -c broker -f
# TABLE
