# bash completion of cufence. tests/python/test_command_line.py holds it against the command.

# The values of an option: words, FILE or FOLDER.
_cufence_values() {
    case $1 in
    uaf) echo off adaptive strict ;;
    align) echo auto 1 2 4 8 16 32 64 128 256 512 ;;
    side) echo end start alternate ;;
    on_fault) echo error abort continue ;;
    stacks) echo on python off ;;
    streams) echo off on on+host ;;
    slack | leaks) echo on off ;;
    fill) echo off nan ;;
    explain) echo auto off dump rerun ;;
    peers) echo auto on off ;;
    ipc) echo refuse driver ;;
    small) echo auto map pack ;;
    say) echo normal quiet verbose ;;
    nan) echo off report stop report+inf stop+inf ;;
    preset) echo fast thorough production ;;
    modes) echo end start align strict fresh ;;
    log | json | known | html | sarif) echo FILE ;;
    keep) echo FOLDER ;;
    esac
}

_cufence() {
    local current=${COMP_WORDS[COMP_CWORD]#=} command=${COMP_WORDS[1]} options='' operands='' awaits='' option='' start=0 i word
    local keys='uaf= align= side= on_fault= guard= remember= stacks= streams= slack= fill= leaks= wait_ms= explain= stuck= peers= ipc=
        skip= small= say= log= json= known= keep= save_values= values= nan='
    keys=${keys//[[:space:]]/ }
    case $command in
    run) options="set= preset= error-exitcode= require-guarded if-asked verbose $keys" operands=COMMAND ;;
    hunt)
        options="modes= set= preset= error-exitcode= require-guarded no-require-guarded $keys"
        operands=COMMAND ;;
    demo) options="list program set= $keys" operands='overrun underrun use-after-free slack-write stream-race first-nan graph' ;;
    explain) options='json all-threads' operands=FILE ;;
    replay) options='times= seconds= json verbose' operands=FOLDER ;;
    report) options='html= sarif= json= known= exit-code' operands=FILE ;;
    options) options='check= json' operands=${keys//=/} ;;
    doctor) options=json ;;
    stuck) options=kill ;;
    help) operands='run hunt demo explain replay report stuck options doctor' ;;
    esac
    if ((COMP_CWORD == 1)); then
        operands='run hunt demo explain replay report stuck options doctor help --help --version'
    fi
    for ((i = 2; i < COMP_CWORD && !start; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        =) awaits=$option ;; # bash takes --key=value for three words
        --) start=$((i + 1)) ;;
        --*)
            option=${word#--} awaits=
            [[ " $options " == *" $option= "* ]] && awaits=$option ;;
        *)
            [[ $awaits || $operands != COMMAND ]] || start=$i
            awaits= ;;
        esac
    done
    if [[ ${COMP_WORDS[COMP_CWORD]} == = ]]; then
        awaits=$option
    fi
    if [[ $awaits ]]; then
        operands=
        [[ " $options " == *" $awaits= "* ]] && operands=$(_cufence_values "$awaits")
    elif [[ $current == -* && $COMP_CWORD -gt 1 && $start == 0 ]]; then
        operands=
        for option in $options help; do
            operands+=" --${option%=}"
        done
    fi
    case $operands in
    FILE) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    FOLDER) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    COMMAND)
        if declare -F _command_offset >/dev/null; then
            _command_offset $((start ? start : COMP_CWORD))
        else
            mapfile -t COMPREPLY < <(compgen -c -- "$current"; compgen -f -- "$current")
        fi ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$operands" -- "$current") ;;
    esac
}
complete -o filenames -F _cufence cufence
