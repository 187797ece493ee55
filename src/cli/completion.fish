# fish completion of sluice. The program knows what may come next; this asks it.
function __sluice_words
    set -l typed (commandline -opc)[2..-1] (commandline -ct)
    for line in (sluice completion words -- $typed 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c sluice -f -a '(__sluice_words)'
